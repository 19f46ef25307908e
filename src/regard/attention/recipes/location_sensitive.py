"""Content and location."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments import SoftmaxAlignment
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import LocationScore


def location_sensitive(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    num_heads: int = 1,
    location: Literal["previous", "cumulative", "both"] = "cumulative",
    num_filters: int = 32,
    kernel_size: int = 31,
    sharpening: float = 1.0,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention that also sees where it was: e_ij = vᵀ tanh(W q_i + U h_j + L f_ij + b), f_i = F * α.

    Source: Chorowski et al. 2015, Attention-Based Models for Speech Recognition (arXiv 1506.07503); the defaults are
    Tacotron 2's (arXiv 1712.05884).
    """
    return Mechanism(
        LocationScore(
            query_size,
            memory_size,
            size,
            num_heads=num_heads,
            location=location,
            num_filters=num_filters,
            kernel_size=kernel_size,
        ),
        SoftmaxAlignment(sharpening=sharpening),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
