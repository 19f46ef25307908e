"""The bilinear score, Luong's `general`."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from regard.attention.contract import AbstractScore, Comparison, Look, Source, Tree
from regard.attention.scores.dot import DotScore
from regard.layers.linear import Linear
from regard.shapes import Float


class BilinearScore(AbstractScore):
    """e_j = g · qᵀ W h_j: a dot product with projected keys.

    Args:
        query_size, memory_size: Q and M; W is (Q, M), without bias.
        scale: g, a fixed number; None learns it, from 1.

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1, `general`. Each head compares its own slice.
    """

    sources = ("luong2015",)
    is_positionwise = True

    def __init__(self, query_size: int, memory_size: int, *, num_heads: int = 1, scale: float | None = 1.0) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.key_projection = Linear(memory_size, query_size, bias=False)
        self.dot = DotScore(query_size, query_size, num_heads=num_heads, scale=scale)

    def prepare(self, source: Source) -> Tree:
        """W h, split into heads."""
        return self.dot.prepare(replace(source, keys=self.key_projection(source.keys)))

    def comparison(self) -> Comparison | None:
        """As the dot product."""
        inner = self.dot.comparison()
        return None if inner is None else replace(inner, called=(("dot", self.dot), *inner.called))

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        return self.dot(look, leaf)
