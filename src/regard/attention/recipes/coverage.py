"""Content and coverage."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments import AlignmentName, alignment_named
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import CoverageScore
from regard.errors import UnsupportedError


def coverage(
    *,
    query_size: int,
    memory_size: int,
    size: int = 256,
    num_heads: int = 1,
    alignment: AlignmentName = "softmax",
    sharpening: float | None = None,
    like: Literal["espnet"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention that knows how much it has seen: e_ij = vᵀ tanh(W q_i + U h_j + w c_ij + b), c_i = Σ α before.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_heads: each has its own coverage; the reads stand side by side.
        alignment: what makes weights of energies (`alignment_named`).
        sharpening: a factor on the energies, 1 unless told.
        like: `espnet` (AttCov) begins the sum with uniform weights, and sharpens by 2 unless told. With filters on the
            sum (AttCovLoc) it is `location_sensitive(first_alignment="uniform", accumulate_first=True, sharpening=2)`.
        window: where it may look.

    Source: See, Liu & Manning 2017, Get To The Point: Summarization with Pointer-Generator Networks (arXiv 1704.04368).
    """
    if like not in (None, "espnet"):
        raise UnsupportedError(f"like={like!r} must be 'espnet', or None.")
    factor = sharpening if sharpening is not None else 2.0 if like == "espnet" else 1.0
    return Mechanism(
        CoverageScore(
            query_size,
            memory_size,
            size,
            num_heads=num_heads,
            first_alignment="uniform" if like == "espnet" else "zeros",
        ),
        alignment_named(alignment, sharpening=factor, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
