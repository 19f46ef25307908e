"""The score of Transformer-XL: content and offset, each with a bias."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard import ops
from regard.attention.contract import AbstractScore, Look, Source, Tree
from regard.attention.heads import split
from regard.attention.scores.dot import ScaledDotScore
from regard.errors import ShapeError
from regard.layers import response
from regard.layers.linear import Linear
from regard.layers.positions import position_angles
from regard.ops.attend import dot_energies
from regard.shapes import Float


class TransformerXLScore(AbstractScore):
    """e_ij = [(W_q q_i + u)ᵀ W_k h_j + (W_q q_i + v)ᵀ W_r r_{i-j}] / √d, with r the sinusoids of the offset.

    r_t = [sin(t ω_0), sin(t ω_1), …, cos(t ω_0), cos(t ω_1), …], ω_p = 10000^{-2p/P}. Offsets are signed:
    a position after the query has the opposite sines of a position equally far before it. (SpeechBrain's RelPosMHAXL
    does not distinguish the two.)

    Args:
        query_size, memory_size: Q and M.
        size: width of the queries' projection, all heads together.
        num_key_value_heads: how many heads the keys have, as in `ScaledDotScore`; W_r has its own for every head.
        position_size: P, even; if None M, or M + 1 if M is odd, as in the paper, where both are the width of the model.
        bias: whether W_q and W_k have biases.

    Numerics: r_{i-j} is never built. By the addition theorem the query is rotated by i and multiplied with the
    sinusoids of j, so that no tensor is larger than the energies. Cost: S·P per head instead of the S·d of the paper's
    shifted matrix.

    Source: Dai et al. 2019 (arXiv 1901.02860), section 3.3.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        position_size: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.position_size = memory_size + memory_size % 2 if position_size is None else position_size
        if self.position_size < 2 or self.position_size % 2:
            raise ShapeError(f"position_size={self.position_size} must be even: sines and cosines come in pairs.")
        self.content = ScaledDotScore(
            query_size, memory_size, size, num_heads=num_heads, num_key_value_heads=num_key_value_heads, bias=bias
        )
        self.num_heads = num_heads
        self.offset_projection = Linear(self.position_size, size, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(num_heads, self.content.head_size))
        self.offset_bias = nn.Parameter(torch.zeros(num_heads, self.content.head_size))
        self.sources = ("dai2019", *self.content.sources)

    def prepare(self, source: Source) -> Tree:
        """W_k h, split into key-value heads."""
        return self.content.prepare(source)

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        projected = self.content.project(look.query)
        content, offset = (projected + bias * self.content.scale for bias in (self.content_bias, self.offset_bias))
        energies = dot_energies(content, look.memory.score)
        return energies + self._offset_energies(offset, look.position, energies), leaf

    def _offset_energies(self, query: Tensor, position: Tensor, energies: Tensor) -> Tensor:
        """qᵀ W_r r_{i-j}: with (x, y) = W_rᵀ q, Σ x sin((i-j)ω) + y cos((i-j)ω); (x, y) is rotated by iω."""
        weight = split(response.matrix(self.offset_projection, self.position_size, query).T, self.num_heads)
        rotated = ops.rotate(
            torch.einsum("rhd,phd->rhp", query, weight), position_angles(position, self.position_size), "half"
        )
        angles = position_angles(torch.arange(energies.shape[2], device=query.device), self.position_size)
        encodings = torch.cat([-angles.sin(), angles.cos()], -1).to(query.dtype)
        return torch.einsum("rhp,sp->rhs", rotated, encodings)
