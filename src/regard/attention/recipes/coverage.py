"""Content and coverage."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments import AlignmentName, alignment_named
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import CoverageScore


@imitable
def coverage(
    *,
    query_size: int,
    memory_size: int,
    size: int = 256,
    num_heads: int = 1,
    alignment: AlignmentName = "softmax",
    sharpening: float = 1.0,
    first_alignment: Literal["zeros", "uniform"] = "zeros",
    like: Literal["espnet"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention that knows how much it has seen: e_ij = vᵀ tanh(W q_i + U h_j + w c_ij + b), c_i = Σ α before.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_heads: each has its own coverage; the reads stand side by side.
        alignment: what makes weights of energies (`alignment_named`).
        sharpening: a factor on the energies.
        first_alignment: what stands in the sum from the beginning.
        like: another implementation (`regard.attention.peers`).
        window: where it may look.

    Source: See, Liu & Manning 2017, Get To The Point: Summarization with Pointer-Generator Networks (arXiv 1704.04368).
    """
    return Mechanism(
        CoverageScore(query_size, memory_size, size, num_heads=num_heads, first_alignment=first_alignment),
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
