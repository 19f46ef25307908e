"""The positions of a Transformer: vectors that are added to embeddings, or an option of its attention."""

from __future__ import annotations

from typing import Literal, get_args

from torch import nn

from regard.attention.recipes.multi_head import Positions as InsideAttention
from regard.errors import UnsupportedError
from regard.layers import BlockedSinusoidalPositions, LearnedPositions, ScaledPositions, SinusoidalPositions

Added = Literal["sinusoidal", "half_sinusoidal", "blocked_sinusoidal", "scaled_sinusoidal", "learned"]
Positions = Added | InsideAttention


def divide_positions(
    positions: Positions | None, size: int, max_length: int | None
) -> tuple[nn.Module | None, InsideAttention | None]:
    """The module that is added to embeddings, and the option of self-attention; at least one of the two is None.

    Args:
        positions: their name, or None.
        size: D.
        max_length: the number of positions that `learned` has; None for all others.
    """
    if (positions == "learned") != (max_length is not None):
        raise UnsupportedError(
            f"positions={positions!r} and max_length={max_length}: learned positions need a max_length; leave it out "
            "with all others."
        )
    if positions is None or positions in get_args(InsideAttention):
        return None, positions  # type: ignore[return-value]
    if max_length is not None:
        return LearnedPositions(max_length, size), None
    if positions == "sinusoidal":
        return SinusoidalPositions(size), None
    if positions == "half_sinusoidal":
        return SinusoidalPositions(size, layout="half"), None
    if positions == "blocked_sinusoidal":
        return BlockedSinusoidalPositions(size), None
    if positions == "scaled_sinusoidal":
        return ScaledPositions(SinusoidalPositions(size)), None
    names = [*get_args(Added), *get_args(InsideAttention)]
    raise UnsupportedError(f"positions={positions!r} must be one of {', '.join(names)}, or None.")
