"""Luong's concat score."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from regard.attention.contract import AbstractScore, Comparison, Look, Source, Tree
from regard.attention.scores.additive import AdditiveScore
from regard.shapes import Float


class ConcatScore(AbstractScore):
    """e_j = vᵀ tanh(W [q; h_j]).

    W acts on the concatenation, so it is the sum of a map of the query and a map of the memory: an additive score
    whose two maps are the halves of one matrix (size, Q + M), initialised as one.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together; each head has its own v over its own slice.

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1, `concat`.
    """

    sources = ("luong2015",)
    is_positionwise = True

    def __init__(self, query_size: int, memory_size: int, size: int, *, num_heads: int = 1) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.additive = AdditiveScore(query_size, memory_size, size, num_heads=num_heads)
        bound = (6 / (query_size + memory_size + size)) ** 0.5
        nn.init.uniform_(self.additive.query_projection.weight, -bound, bound)
        nn.init.uniform_(self.additive.key_projection.weight, -bound, bound)

    def prepare(self, source: Source) -> Tree:
        """The half of W that belongs to the memory, times h."""
        return self.additive.prepare(source)

    def comparison(self) -> Comparison | None:
        """As the additive score of the two halves."""
        inner = self.additive.comparison()
        return None if inner is None else replace(inner, called=(("additive", self.additive), *inner.called))

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        return self.additive(look, leaf)
