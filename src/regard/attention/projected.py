"""An attention whose context is projected."""

from __future__ import annotations

from dataclasses import replace

from torch import Generator, Tensor

from regard.attention.contract import Attended, Tree
from regard.attention.interface import AbstractAttention, AbstractComposite
from regard.layers.linear import Linear
from regard.shapes import Float


class Projected(AbstractComposite):
    """W_o c, with c the context of another attention: so a layer of a Transformer can have any of them.

    Args:
        attention: the other attention.
        size: D, the width of W_o c.

    >>> import torch
    >>> from regard.attention import bahdanau
    >>> attention = Projected(bahdanau(query_size=4, memory_size=6), 4)
    >>> attended, _ = attention(torch.randn(2, 3, 4), attention.prepare(torch.randn(2, 5, 6)))
    >>> attended.context.shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, attention: AbstractAttention, size: int) -> None:
        super().__init__()
        self.attention = attention
        self.projection = Linear(attention.context_size, size, bias=False)

    @property
    def context_size(self) -> int:
        """D."""
        return self.projection.out_features

    @property
    def inner(self) -> tuple[AbstractAttention]:
        """The other attention."""
        return (self.attention,)

    def prepare(self, values: Tree, *, mask: Tree = None, lengths: Tree = None, grid: Tree = None) -> Tree:
        """The memory of the other attention."""
        told = {} if grid is None else {"grid": grid}
        return self.attention.prepare(values, mask=mask, lengths=lengths, **told)

    def extend(self, memory: Tree, values: Tree, *, mask: Tree = None) -> Tree:
        """The memory with further positions."""
        return self.attention.extend(memory, values, mask=mask)

    def initial_state(self, memory: Tree, num_hypotheses: int = 1) -> Tree:
        """The state of the other attention before the first step."""
        return self.attention.initial_state(memory, num_hypotheses)

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
        attended, state = self.attention.step(
            query, memory, state, inputs=inputs, alignment=alignment, generator=generator
        )
        return replace(attended, context=self.projection(attended.context)), state

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
        """All steps of a sequence."""
        attended, state = self.attention(
            queries, memory, state, inputs=inputs, alignment=alignment, generator=generator
        )
        return replace(attended, context=self.projection(attended.context)), state
