"""Which way a Transformer knows of positions: vectors that are added to embeddings, or what attention does."""

from __future__ import annotations

from typing import Literal, get_args

from torch import nn

from regard.attention.recipes.multi_head import Positions as InsideAttention
from regard.errors import UnsupportedError
from regard.layers import LearnedPositions, ScaledPositions, SinusoidalPositions

Added = Literal["sinusoidal", "scaled_sinusoidal", "learned"]
Positions = Added | InsideAttention


def divide_positions(
    positions: Positions | None, size: int, max_length: int | None
) -> tuple[nn.Module | None, InsideAttention | None]:
    """What is added to embeddings, and what self-attention is told; one of the two, or neither.

    Args:
        positions: by name.
        size: D.
        max_length: how many positions are learned; None for all others.
    """
    if (positions == "learned") != (max_length is not None):
        raise UnsupportedError(
            f"positions={positions!r} and max_length={max_length}: learned positions need a max_length, and no others "
            "have one."
        )
    if positions is None or positions in get_args(InsideAttention):
        return None, positions  # type: ignore[return-value]
    if max_length is not None:
        return LearnedPositions(max_length, size), None
    if positions == "sinusoidal":
        return SinusoidalPositions(size), None
    if positions == "scaled_sinusoidal":
        return ScaledPositions(SinusoidalPositions(size)), None
    known = [*get_args(Added), *get_args(InsideAttention)]
    raise UnsupportedError(f"positions={positions!r} must be one of {', '.join(known)}, or None.")
