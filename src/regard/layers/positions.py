"""Positions of tokens as vectors, and embeddings that add them."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import ShapeError, UnsupportedError
from regard.layers.dropout import Dropout
from regard.shapes import Float, Int


def position_angles(positions: Int[Tensor, "*rows"], size: int, base: float = 10000.0) -> Float[Tensor, "*rows P"]:
    """t / base^{2i/D} for i < D/2, rounded up: the angles of sinusoidal positions and of rotations.

    Numerics: float64 where the device has it, since the rounding of a large angle is an error of its sine and cosine.

    >>> position_angles(torch.tensor([0, 100]), 4)
    tensor([[  0.,   0.],
            [100.,   1.]], dtype=torch.float64)
    """
    even = torch.arange(0, size, 2, device=positions.device, dtype=_precise(positions.device))
    return positions[..., None] * base ** (-even / size)


class SinusoidalPositions(nn.Module):
    """p_{t,2i} = sin(t / 10000^{2i/D}),  p_{t,2i+1} = cos(t / 10000^{2i/D}); an odd width ends in a sine.

    Args:
        size: D.
        layout: `interleaved`, as above, or `half`, all sines before all cosines, as in Marian.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5.
    """

    def __init__(self, size: int, *, layout: Literal["interleaved", "half"] = "interleaved") -> None:
        super().__init__()
        if layout not in ("interleaved", "half"):
            raise UnsupportedError(f"layout={layout!r} must be 'interleaved' or 'half'.")
        self.size = size
        self.layout = layout

    def forward(self, positions: Int[Tensor, "*rows"], like: Tensor) -> Float[Tensor, "*rows D"]:
        """Vectors of positions, of any shape, with the floating type of `like`."""
        angles = position_angles(positions, self.size)
        parts = angles.sin(), angles.cos()
        pairs = torch.stack(parts, -1).flatten(-2) if self.layout == "interleaved" else torch.cat(parts, -1)
        return pairs[..., : self.size].to(like.dtype)


class BlockedSinusoidalPositions(nn.Module):
    """All sines before all cosines, with the frequencies 10000^{-i/(⌊D/2⌋ - 1)}, i < ⌊D/2⌋; an odd width ends in 0.

    The slowest frequency is exactly 1/10000.

    Args:
        size: D.

    Source: the authors' tensor2tensor (`get_timing_signal_1d`), which fairseq follows.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, positions: Int[Tensor, "*rows"], like: Tensor) -> Float[Tensor, "*rows D"]:
        """Vectors of positions, of any shape, with the floating type of `like`."""
        # the frequencies fall from 1 to 1/10000 in count - 1 equal factors
        count = self.size // 2
        index = torch.arange(count, device=positions.device, dtype=_precise(positions.device))
        angles = positions[..., None] * 10000.0 ** (-index / max(count - 1, 1))
        padding = angles.new_zeros(*positions.shape, self.size % 2)
        return torch.cat([angles.sin(), angles.cos(), padding], -1).to(like.dtype)


class LearnedPositions(nn.Module):
    """A learned vector for each of the first `max_length` positions.

    Args:
        max_length: the number of positions.
        size: D.

    Source: Gehring et al. 2017 (arXiv 1705.03122), section 3.1.
    """

    def __init__(self, max_length: int, size: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.table = nn.Embedding(max_length, size)
        nn.init.normal_(self.table.weight, std=size**-0.5)

    def forward(self, positions: Int[Tensor, "*rows"], like: Tensor) -> Float[Tensor, "*rows D"]:
        """Vectors of positions, of any shape.

        Raises:
            ShapeError: for a position beyond the last one; not checked in compiled and exported programs.
        """
        if positions.numel() and not torch.compiler.is_compiling() and int(positions.max()) >= self.max_length:
            raise ShapeError(
                f"A sequence of length {int(positions.max()) + 1} is longer than max_length={self.max_length}, the "
                "number of learned positions. Shorten it, learn more positions, or use sinusoidal ones."
            )
        return self.table(positions).to(like.dtype)


class ScaledPositions(nn.Module):
    """α p_t: other positions times a learned number.

    Args:
        positions: `SinusoidalPositions` in the paper.
        scale: the initial α.

    Source: Li et al. 2019 (arXiv 1809.08895), section 3.
    """

    def __init__(self, positions: nn.Module, *, scale: float = 1.0) -> None:
        super().__init__()
        self.positions = positions
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, positions: Int[Tensor, "*rows"], like: Tensor) -> Float[Tensor, "*rows D"]:
        """Vectors of positions, of any shape."""
        return self.scale * self.positions(positions, like)


class PositionedEmbedding(nn.Module):
    """dropout(√D · embedding(x_t) + p_t), the input of a Transformer.

    Args:
        embedding: from inputs to D features; has `size`.
        positions: the module of p_t; None for attention with relative positions.
        dropout: of the sum, in training.
        scaled: whether embeddings are multiplied by √D.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), sections 3.4 and 5.4.
    """

    def __init__(
        self,
        embedding: Any,
        *,
        positions: nn.Module | Literal["sinusoidal"] | None = "sinusoidal",
        dropout: float = 0.0,
        scaled: bool = True,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(embedding.size) if scaled else 1.0
        self.size: int = embedding.size
        self.embedding = embedding
        self.positions = SinusoidalPositions(self.size) if isinstance(positions, str) else positions
        self.dropout = Dropout(dropout)

    @property
    def max_length(self) -> int | None:
        """The number of learned positions, or None if there is no limit."""
        return self.positions.max_length if isinstance(self.positions, LearnedPositions) else None

    def forward(self, inputs: Tensor, positions: Int[Tensor, " T"] | Int[Tensor, " R"]) -> Float[Tensor, "*rows D"]:
        """The features of a sequence: ids (B, T) or values (B, T, F) at positions (T,); or of a step: (R,) or (R, F)
        at (R,)."""
        embedded = self.embedding(inputs)
        scaled = embedded * self.scale
        return self.dropout(scaled if self.positions is None else scaled + self.positions(positions, embedded))


def _precise(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64
