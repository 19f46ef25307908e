"""Where a token stands: positions as vectors, and embeddings that know them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from regard.shapes import Float, Int


class SinusoidalPositions(nn.Module):
    """p_{t,2i} = sin(t / 10000^{2i/D}),  p_{t,2i+1} = cos(t / 10000^{2i/D}); an odd width ends in a sine.

    There is no longest position. Angles are computed in float64 where the device has it: in float32 those of late
    positions would be off by their rounding.

    Args:
        size: D.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, positions: Int[Tensor, "*rows"], like: Tensor) -> Float[Tensor, "*rows D"]:
        """Vectors of positions, of any shape, with the floating type of `like`."""
        precise = torch.float32 if positions.device.type == "mps" else torch.float64
        even = torch.arange(0, self.size, 2, device=positions.device, dtype=precise)
        angles = positions[..., None] * torch.exp(even * (-math.log(10000.0) / self.size))
        pairs = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)
        return pairs[..., : self.size].to(like.dtype)


class PositionedEmbedding(nn.Module):
    """dropout(√D · embedding(x_t) + p_t), what a Transformer is fed.

    Args:
        embedding: from inputs to D features; has `size`.
        dropout: of the sum, in training.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), sections 3.4 and 5.4.
    """

    def __init__(self, embedding: Any, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.size: int = embedding.size
        self.embedding = embedding
        self.positions = SinusoidalPositions(self.size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, positions: Int[Tensor, " T"] | Int[Tensor, " R"]) -> Float[Tensor, "*rows D"]:
        """Of a sequence, (B, T) ids or (B, T, F) values at positions (T,); of a step, (R,) or (R, F) at (R,)."""
        embedded = self.embedding(inputs)
        return self.dropout(embedded * math.sqrt(self.size) + self.positions(positions, embedded))
