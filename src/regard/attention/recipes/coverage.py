"""Content and coverage."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments.named import AlignmentName, alignment_named
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
    """Additive attention with coverage: e_ij = vᵀ tanh(W q_i + U h_j + w c_ij + b), c_i = Σ_{i' < i} α_i'.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_heads: each head has its own coverage; the contexts are concatenated.
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        first_alignment: what the sum starts from: `zeros`, or weights `uniform` over the source.
        like: another implementation (`regard.attention.peers`).
        window: which positions may be attended to; all if None.

    Source: See, Liu & Manning 2017, Get To The Point: Summarization with Pointer-Generator Networks (arXiv 1704.04368).
    """
    return Mechanism(
        CoverageScore(query_size, memory_size, size, num_heads=num_heads, first_alignment=first_alignment),
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
