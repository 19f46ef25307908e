"""What decoders know of attention: the verbs of a mechanism, and what can be asked of it before."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Generator, Tensor, nn

from regard.attention.contract import Attended, Tree
from regard.shapes import Float


class AbstractAttention(nn.Module):
    """A mechanism, or several that act as one.

    Memories and states are trees that only the attention itself looks into: those of a `Mechanism` are `Memory` and
    `State`, those of several are tuples.
    """

    @property
    def context_size(self) -> int:
        """V, the width of the context."""
        raise NotImplementedError

    @property
    def is_recurrent(self) -> bool:
        """Whether a step depends on the steps before it."""
        raise NotImplementedError

    @property
    def is_normalised(self) -> bool:
        """Whether the weights of a row that may look somewhere sum to 1."""
        raise NotImplementedError

    @property
    def uses_query(self) -> bool:
        """Whether there is a query; without one, use `pool`."""
        raise NotImplementedError

    @property
    def is_random(self) -> bool:
        """Whether weights are drawn."""
        raise NotImplementedError

    @property
    def trains_differently(self) -> bool:
        """Whether training and evaluation differ by design, dropout apart."""
        raise NotImplementedError

    def prepare(self, values: Tree, *, mask: Tree = None, lengths: Tree = None) -> Tree:
        """All that depends on the source only, done once."""
        raise NotImplementedError

    def extend(self, memory: Tree, values: Tree, *, mask: Tree = None) -> Tree:
        """A memory that has grown by further positions."""
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
        """One look."""
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
        """All looks of a sequence; agrees with the loop of `step`."""
        raise NotImplementedError


class AbstractComposite(AbstractAttention):
    """An attention made of others, which is as they are."""

    @property
    def inner(self) -> Iterable[AbstractAttention]:
        """What it is made of."""
        raise NotImplementedError

    @property
    def is_recurrent(self) -> bool:
        """Whether any of them is."""
        return any(one.is_recurrent for one in self.inner)

    @property
    def is_normalised(self) -> bool:
        """Whether all of them are."""
        return all(one.is_normalised for one in self.inner)

    @property
    def uses_query(self) -> bool:
        """Whether any of them does."""
        return any(one.uses_query for one in self.inner)

    @property
    def is_random(self) -> bool:
        """Whether any of them draws."""
        return any(one.is_random for one in self.inner)

    @property
    def trains_differently(self) -> bool:
        """Whether any of them does."""
        return any(one.trains_differently for one in self.inner)
