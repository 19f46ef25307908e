"""An attention whose context is projected."""

from __future__ import annotations

from dataclasses import replace

from regard.attention.contract import Attended, Tree
from regard.attention.interface import AbstractAttention, AbstractModified, prepare_memory
from regard.layers.linear import Linear


class Projected(AbstractModified):
    """W_o c, with c the context of another attention: a layer of a Transformer can have any attention.

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
        return self.projection.out_features

    @property
    def inner(self) -> tuple[AbstractAttention]:
        return (self.attention,)

    def prepare(self, values: Tree, *, mask: Tree = None, lengths: Tree = None, grid: Tree = None) -> Tree:
        return prepare_memory(self.attention, values, mask, grid, lengths)

    def change_result(self, attended: Attended) -> Attended:
        return replace(attended, context=self.projection(attended.context))
