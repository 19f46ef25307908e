"""The scaled dot product of bounded projections."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.contract import AbstractScore, Look, Source, Tree
from regard.attention.heads import split
from regard.attention.scores.dot import ScaledDotScore
from regard.ops.attend import dot_energies
from regard.shapes import Float


class TanhDotScore(AbstractScore):
    """e_j = tanh(W_q q + b_q)ᵀ tanh(W_k h_j + b_k) / √d, with d the width of a head: energies lie within ±√d.

    Args:
        query_size, memory_size: Q and M.
        size: width of the projections, all heads together.
        bias: whether the projections have biases.

    This is ESPnet's AttMultiHeadDot, and with one head and a sharpening of 2 √d its AttDot.

    Source: Chan et al. 2016 (arXiv 1508.01211), equation 9: a dot product of two networks (φ and ψ), here of one layer.
    """

    sources = ("chan2016",)

    is_positionwise = True

    def __init__(self, query_size: int, memory_size: int, size: int, *, num_heads: int = 1, bias: bool = True) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.content = ScaledDotScore(query_size, memory_size, size, num_heads=num_heads, bias=bias)

    def prepare(self, source: Source) -> Tree:
        """tanh(W_k h + b_k), split into heads."""
        return torch.tanh(self.content.prepare(source))

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        bounded = torch.tanh(self.content.query_projection(look.query)) * self.content.scale
        return dot_energies(split(bounded, self.num_heads), look.memory.score), leaf
