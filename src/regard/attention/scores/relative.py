"""The scaled dot product with vectors for offsets."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.contract import AbstractScore, Look, Source, Tree
from regard.attention.offsets import OffsetVectors
from regard.attention.scores.dot import ScaledDotScore
from regard.ops.attend import dot_energies
from regard.shapes import Float


class RelativeDotScore(AbstractScore):
    """e_ij = (W_q q_i)ᵀ(W_k h_j + a_{clip(j-i)}) / √d, with a learned vector a for every offset from -k to k.

    Args:
        query_size, memory_size: Q and M.
        size: width of the queries' projection, all heads together.
        num_key_value_heads: how many heads the keys have, as in `ScaledDotScore`.
        max_distance: k; positions farther away count as those at distance k.
        bias: whether the projections have biases.

    Source: Shaw, Uszkoreit & Vaswani 2018 (arXiv 1803.02155), equation 4 (a^K there). `RelativeSum` is the read.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        max_distance: int = 16,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.content = ScaledDotScore(
            query_size, memory_size, size, num_heads=num_heads, num_key_value_heads=num_key_value_heads, bias=bias
        )
        self.num_heads = num_heads
        self.offsets = OffsetVectors(max_distance, self.content.head_size)
        self.sources = ("shaw2018", *self.content.sources)

    def prepare(self, source: Source) -> Tree:
        """W_k h, split into key-value heads."""
        return self.content.prepare(source)

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        projected = self.content.project(look.query)
        energies = dot_energies(projected, look.memory.score)
        offset_energies = torch.einsum("rhd,cd->rhc", projected, self.offsets.vectors)
        return energies + offset_energies.gather(2, self.offsets.index(look.position, energies)), leaf
