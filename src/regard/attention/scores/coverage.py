"""The coverage score: content, and how much weight each position has had so far."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.beginning import first_alignment
from regard.attention.contract import AbstractScore, Attended, Look, Memory, Source, Tree
from regard.attention.scores.additive import AdditiveScore
from regard.shapes import Float


class CoverageScore(AbstractScore):
    """e_ij = vᵀ tanh(W q_i + U h_j + w c_ij + b),  c_i = Σ_{i' < i} α_i'.

    Coverage has no upper bound: a position that had all the weight in two steps has c = 2. The original leaves the term
    out of the first training step, which is c = 0.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together; each head has its own coverage and its own w.
        first_alignment: what the sum starts from: `zeros`, or weights `uniform` over the source (ESPnet).

    Source: See, Liu & Manning 2017 (arXiv 1704.04368), section 2.3 (W_s, W_h, w_c, b_attn there).
    """

    sources = ("see2017",)

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        first_alignment: Literal["zeros", "uniform"] = "zeros",
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.first_alignment: Literal["zeros", "uniform"] = first_alignment
        self.content = AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=True)
        self.coverage_projection = nn.Parameter(torch.empty(num_heads, size // num_heads))
        bound = (6 / (1 + size // num_heads)) ** 0.5
        nn.init.uniform_(self.coverage_projection, -bound, bound)

    def prepare(self, source: Source) -> Tree:
        """U h, split into heads."""
        return self.content.prepare(source)

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """c before the first step, (R, H, S)."""
        return first_alignment(self.first_alignment, memory, num_rows, self.num_heads)

    def forward(self, look: Look, leaf: Tensor) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        identity = leaf.new_ones(self.num_heads, 1, 1, 1)  # one filter of width 1
        projection = self.coverage_projection[:, None]
        return self.content.locate(look, leaf[:, :, None], identity, projection), leaf

    def observe(self, attended: Attended, look: Look, leaf: Tensor) -> Tensor:
        """Adds the step's weights."""
        return leaf + attended.alignment
