"""The interface of a mechanism, which is all that decoders know of attention."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Generator, Tensor, nn

from regard.attention.contract import AbstractPart, Attended, Tree
from regard.shapes import Float


class AbstractAttention(nn.Module):
    """A mechanism, or several that act as one.

    Memories and states are trees that only the attention itself reads: `Memory` and `State` for a `Mechanism`, tuples
    of them for several.
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
        """What it is made of, from which the properties below follow."""
        raise NotImplementedError

    @property
    def is_recurrent(self) -> bool:
        """Whether a step depends on the steps before it."""
        return any(part.is_recurrent for part in self.inner)

    @property
    def uses_query(self) -> bool:
        """Whether any part reads the query; if none does, use `pool`."""
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
    """An attention made of others, whose properties follow from theirs."""

    @property
    def inner(self) -> Iterable[AbstractAttention]:
        """The attentions that it is made of."""
        raise NotImplementedError

    @property
    def is_normalised(self) -> bool:
        """Whether all of them are."""
        return all(attention.is_normalised for attention in self.inner)

    @property
    def is_random(self) -> bool:
        """Whether any of them draws weights at random."""
        return any(attention.is_random for attention in self.inner)


def prepare_memory(attention: Any, values: Tree, mask: Tree, grid: Tree) -> Tree:
    """`attention.prepare`, which is told the grid only where there is one: a user's attention need not know it."""
    if grid is None:
        return attention.prepare(values, mask=mask)
    return attention.prepare(values, mask=mask, grid=grid)
