"""Dot-product scores: of query and memory themselves (Luong), or of projections and scaled (Vaswani)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractScore, Comparison, Look, Source, Tree
from regard.attention.heads import group_size, head_size, split
from regard.errors import ShapeError
from regard.layers.linear import Linear
from regard.ops.attend import dot_energies
from regard.shapes import Float


class DotScore(AbstractScore):
    """e_j = g · qᵀh_j, without projections.

    Args:
        query_size, memory_size: Q and M, which must be equal; each head compares its own slice of Q / num_heads.
        scale: g, a fixed number; None learns it, from 1.

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1, `dot`; the learned g is tf.contrib.seq2seq's
    `scale=True`.
    """

    sources = ("luong2015",)
    is_positionwise = True

    def __init__(self, query_size: int, memory_size: int, *, num_heads: int = 1, scale: float | None = 1.0) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        if query_size != memory_size:
            raise ShapeError(
                f"A dot score compares query and memory without projections: query_size={query_size} and "
                f"memory_size={memory_size} must be equal. Use the bilinear score ('general') for different sizes."
            )
        head_size(query_size, num_heads, "query_size")
        self.num_heads = num_heads
        self.scale: float | nn.Parameter = nn.Parameter(torch.ones(())) if scale is None else scale

    def prepare(self, source: Source) -> Tree:
        """The keys, split into heads."""
        return split(source.keys, self.num_heads)

    def project(self, query: Float[Tensor, "*rows Q"]) -> Float[Tensor, "*rows H D"]:
        """g q, split into heads."""
        return split(query * self.scale, self.num_heads)

    def comparison(self) -> Comparison:
        """A dot product of g q and the keys."""
        return Comparison("dot", scale=self.scale)

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        return dot_energies(self.project(look.query), look.memory.score), leaf


class ScaledDotScore(AbstractScore):
    """e_j = (W_q q)ᵀ(W_k h_j) / √d, with d the width of a head.

    Args:
        query_size, memory_size: Q and M.
        size: width of the queries' projection, all heads together.
        num_key_value_heads: G, how many W_k there are; adjacent heads share one. Each head has its own if None.
        bias: whether the projections have biases.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2; fewer key-value heads: Ainslie et al. 2023
    (arXiv 2305.13245), with one for all: Shazeer 2019 (arXiv 1911.02150).
    """

    is_positionwise = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.head_size, sharing = head_size(size, num_heads), group_size(num_heads, num_key_value_heads)
        self.num_heads = num_heads
        self.num_key_value_heads = num_heads // sharing
        self.sources = ("vaswani2017",) if sharing == 1 else ("vaswani2017", "ainslie2023")
        self.scale = self.head_size**-0.5
        self.query_projection = Linear(query_size, size, bias=bias)
        self.key_projection = Linear(memory_size, self.head_size * self.num_key_value_heads, bias=bias)

    def prepare(self, source: Source) -> Tree:
        """W_k h, split into key-value heads."""
        return split(self.key_projection(source.keys), self.num_key_value_heads)

    def project(self, query: Float[Tensor, "*rows Q"]) -> Float[Tensor, "*rows H D"]:
        """W_q q / √d, split into heads."""
        return split(self.query_projection(query) * self.scale, self.num_heads)

    def comparison(self) -> Comparison:
        """A dot product of W_q q / √d and the keys."""
        return Comparison("dot", self.query_projection, self.scale)

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        return dot_energies(self.project(look.query), look.memory.score), leaf
