"""The dot product of queries and keys of length 1."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.attention.contract import AbstractScore, Comparison, Look, Source, Tree
from regard.attention.scores.dot import ScaledDotScore
from regard.ops.attend import dot_energies
from regard.shapes import Float


class NormalisedDotScore(AbstractScore):
    """e_j = g · (W_q q / ‖W_q q‖)ᵀ (W_k h_j / ‖W_k h_j‖), with the norms of each head and a learned g for all heads.

    No energy is above g, however large the weights become. At first g = log₂(L² - L), for sources of about L positions.

    Args:
        query_size, memory_size, size, num_heads, num_key_value_heads, bias: as in `ScaledDotScore`.
        length: L; the paper takes the 97.5th percentile of the lengths.

    Source: Henry et al. 2020 (arXiv 2010.04245), section 3.
    """

    sources = ("henry2020",)
    is_positionwise = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        length: int = 50,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.content = ScaledDotScore(
            query_size, memory_size, size, num_heads=num_heads, num_key_value_heads=num_key_value_heads, bias=bias
        )
        self.num_heads = num_heads
        self.head_size = self.content.head_size
        self.gain = nn.Parameter(torch.tensor(math.log2(max(length, 2) ** 2 - max(length, 2))))

    def prepare(self, source: Source) -> Tree:
        """W_k h of length 1, split into key-value heads."""
        return _unit(self.content.prepare(source))

    def project(self, query: Float[Tensor, "*rows Q"]) -> Float[Tensor, "*rows H D"]:
        """W_q q of length g, split into heads."""
        return self._normalised(self.content.project(query))

    def comparison(self) -> Comparison:
        """A dot product of queries that are divided by their norms after the projection."""
        return Comparison(
            "dot",
            self.content.query_projection,
            called=(("content", self.content),),
            rotate=lambda query, positions: self._normalised(query),
        )

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        return dot_energies(self.project(look.query), look.memory.score), leaf

    def _normalised(self, query: Float[Tensor, "*rows H D"]) -> Float[Tensor, "*rows H D"]:
        """Queries of length g, whatever factor they had."""
        return self.gain.to(query.dtype) * _unit(query)


def _unit(x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
    """x / ‖x‖, zeros for zeros; in float32 at least, and divided by the largest number before it is squared."""
    wide = x.float() if x.element_size() < 4 else x
    largest = wide.detach().abs().amax(-1, keepdim=True).clamp(min=torch.finfo(wide.dtype).tiny)
    return normalize(wide / largest, dim=-1).to(x.dtype)
