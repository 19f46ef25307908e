"""Content and coverage of a plane."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments.named import AlignmentName, alignment_named
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import GatedSum, WeightedSum
from regard.attention.scores import PlaneCoverageScore


def plane_coverage(
    *,
    query_size: int,
    memory_size: int,
    size: int = 256,
    num_heads: int = 1,
    num_filters: int = 128,
    kernel_size: int | tuple[int, int] = 11,
    alignment: AlignmentName = "softmax",
    sharpening: float = 1.0,
    gate: Literal["scalar", "vector"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention with coverage of a plane: e_ij = vᵀ tanh(W q_i + U h_j + U_f f_ij + b), f_i = F * Σ α_i'.

    The α are the weights of all earlier steps. F slides over the plane of an image's cells (2-D), so that a cell also
    knows which of its neighbours were attended to. `prepare(..., grid=(h, w))` tells how the positions lie; without a
    grid they are one row.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_heads: each head has its own coverage and filters; the contexts are concatenated.
        num_filters, kernel_size: of F; the kernel size is odd, a number or (rows, columns).
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        gate: "scalar" or "vector": the context is multiplied by σ(w q + b'), as in `show_attend_tell`; None: no gate.
        window: which positions may be attended to; all if None.

    Source: Zhang, Du, Zhang, Liu, Hu, Hu, Wei & Dai 2017, Watch, attend and parse: An end-to-end neural network based
    approach to handwritten mathematical expression recognition, Pattern Recognition 71
    (doi 10.1016/j.patcog.2017.06.017).
    """
    score = PlaneCoverageScore(
        query_size, memory_size, size, num_heads=num_heads, num_filters=num_filters, kernel_size=kernel_size
    )
    return Mechanism(
        score,
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads)
        if gate is None
        else GatedSum(query_size, memory_size, gate=gate, num_heads=num_heads),
        window,
    )
