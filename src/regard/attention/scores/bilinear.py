"""The bilinear score, Luong's `general`."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.contract import AbstractScore, Memory, Tree
from regard.attention.scores.dot import DotScore
from regard.shapes import Bool, Float, Int


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
        self.key_projection = nn.Linear(memory_size, query_size, bias=False)
        self.dot = DotScore(query_size, query_size, num_heads=num_heads, scale=scale)

    def prepare(
        self,
        values: Float[Tensor, "B S M"],
        keys: Float[Tensor, "B S M2"],
        mask: Bool[Tensor, "B S"] | None,
        start: int = 0,
    ) -> Tree:
        """W h, split into heads."""
        return self.dot.prepare(values, self.key_projection(keys), mask, start)

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tree, position: Int[Tensor, " R"]
    ) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        return self.dot(query, memory, leaf, position)
