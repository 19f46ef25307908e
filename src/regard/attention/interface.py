"""The interface of attention that encoders and decoders call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Generator, Tensor, nn

from regard.attention.contract import AbstractPart, Attended, Tree
from regard.errors import UnsupportedError
from regard.shapes import Float


class AbstractAttention(nn.Module):
    """A mechanism, or several that act as one.

    Only the attention itself reads its memories and states: for a `Mechanism` `Memory` and `MechanismState`.
    """

    @property
    def context_size(self) -> int:
        """V, the width of the context."""
        raise NotImplementedError

    @property
    def is_normalised(self) -> bool:
        """Whether the weights of a row with support sum to 1."""
        raise NotImplementedError

    @property
    def is_random(self) -> bool:
        """Whether weights are drawn at random."""
        raise NotImplementedError

    @property
    def inner(self) -> Iterable[AbstractPart | AbstractAttention]:
        """The parts or attentions that it consists of."""
        raise NotImplementedError

    @property
    def is_recurrent(self) -> bool:
        """Whether a step depends on the steps before it."""
        return any(part.is_recurrent for part in self.inner)

    @property
    def uses_query(self) -> bool:
        """Whether any part reads the query; a mechanism without one has `pool`."""
        return any(part.uses_query for part in self.inner)

    @property
    def trains_differently(self) -> bool:
        """Whether training and evaluation differ by design, apart from dropout."""
        return any(part.trains_differently for part in self.inner)

    def prepare(self, values: Tree, *, mask: Tree = None, lengths: Tree = None, grid: Tree = None) -> Tree:
        """The memory: everything that depends only on the source, computed once.

        Args:
            grid: (h, w), if the positions are the cells of an image: s = y·w + x.
        """
        raise NotImplementedError

    def extend(self, memory: Tree, values: Tree, *, mask: Tree = None) -> Tree:
        """The memory with further positions."""
        raise NotImplementedError

    def at_pace(self, memory: Tree, pace: Float[Tensor, " B"]) -> Tree:
        """The memory through which attention moves `pace` times as fast as it was trained to.

        Raises:
            UnsupportedError: if it does not move at a pace of its own.
        """
        raise UnsupportedError(f"pace: {type(self).__name__} does not move along the source at a pace of its own.")

    def initial_state(self, memory: Tree, num_hypotheses: int = 1) -> Tree:
        """The state before the first step: R = B · num_hypotheses rows."""
        raise NotImplementedError

    def step(
        self,
        query: Float[Tensor, "R Q"],
        memory: Tree,
        state: Tree,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, Tree]:
        """One step."""
        raise NotImplementedError

    def forward(
        self,
        queries: Float[Tensor, "R T Q"],
        memory: Tree,
        state: Tree = None,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, Tree]:
        """All steps of a sequence; agrees with the loop of `step`."""
        raise NotImplementedError


class AbstractComposite(AbstractAttention):
    """An attention that consists of other ones."""

    @property
    def inner(self) -> Sequence[AbstractAttention]:
        raise NotImplementedError

    @property
    def is_normalised(self) -> bool:
        return all(attention.is_normalised for attention in self.inner)

    @property
    def is_random(self) -> bool:
        return any(attention.is_random for attention in self.inner)


class AbstractModified(AbstractComposite):
    """One other attention, with changed queries or a changed result."""

    def change_query(self, query: Tensor) -> Tensor:
        """The queries of the other attention, from (R, Q) or (R, T, Q)."""
        return query

    def change_result(self, attended: Attended) -> Attended:
        """The result, from that of the other attention."""
        return attended

    @property
    def context_size(self) -> int:
        return self.inner[0].context_size

    def extend(self, memory: Tree, values: Tree, *, mask: Tree = None) -> Tree:
        return self.inner[0].extend(memory, values, mask=mask)

    def at_pace(self, memory: Tree, pace: Float[Tensor, " B"]) -> Tree:
        return self.inner[0].at_pace(memory, pace)

    def initial_state(self, memory: Tree, num_hypotheses: int = 1) -> Tree:
        return self.inner[0].initial_state(memory, num_hypotheses)

    def step(
        self,
        query: Float[Tensor, "R Q"],
        memory: Tree,
        state: Tree,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, Tree]:
        options: dict[str, Any] = {"inputs": inputs, "alignment": alignment, "generator": generator}
        attended, state = self.inner[0].step(self.change_query(query), memory, state, **options)
        return self.change_result(attended), state

    def forward(
        self,
        queries: Float[Tensor, "R T Q"],
        memory: Tree,
        state: Tree = None,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, Tree]:
        options: dict[str, Any] = {"inputs": inputs, "alignment": alignment, "generator": generator}
        attended, state = self.inner[0](self.change_query(queries), memory, state, **options)
        return self.change_result(attended), state


def prepare_memory(attention: Any, values: Tree, mask: Tree, grid: Tree, lengths: Tree = None) -> Tree:
    """`attention.prepare`, without grid and lengths if there are none: a user's attention need not accept them."""
    options = {name: value for name, value in (("lengths", lengths), ("grid", grid)) if value is not None}
    return attention.prepare(values, mask=mask, **options)
