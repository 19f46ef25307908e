"""Distributions between softmax (α = 1) and sparsemax (α = 2)."""

from __future__ import annotations

from torch import Tensor

from regard.ops.choose import Implementation, choose
from regard.ops.entmax.reference import bisect
from regard.ops.entmax.sorting import refuse_sorting, sort
from regard.shapes import Bool, Float

ENTMAX = (Implementation("sorting", sort, refuse_sorting), Implementation("reference", bisect))


def entmax(
    energies: Float[Tensor, "*rows S"],
    support: Bool[Tensor, "*#rows S"] | None = None,
    alpha: Float[Tensor, "*#rows 1"] | float = 1.5,
) -> Float[Tensor, "*rows S"]:
    """w_s = max((α - 1) e_s - τ, 0)^{1/(α - 1)} with τ such that Σ_s w_s = 1.

    α = 1 is softmax, 2 is sparsemax; the larger α, the more weights are exactly 0. Outside the support all are. A row
    without support gives zero weights and zero gradients. Half types are computed in float32.

    Gradient: ∂w/∂e = diag(r) - r rᵀ/Σr with r_s = w_s^{2 - α} where w_s > 0, and exact with respect to α, also near 1.
    Can be differentiated again.

    Args:
        alpha: α ≥ 1, a number, or a tensor that is broadcast over S: (H, 1) is one for each head.

    Source: Peters, Niculae & Martins 2019 (arXiv 1905.05702), section 3 and algorithms 1 and 2; ∂w/∂α: Correia,
    Niculae & Martins 2019 (arXiv 1909.00015), proposition 1.

    >>> import torch
    >>> entmax(torch.tensor([[1.0, 0.0, -1.5]]))
    tensor([[0.8307, 0.1693, 0.0000]])
    """
    return choose(ENTMAX, energies, support, alpha).function(energies, support, alpha)


__all__ = ["ENTMAX", "entmax"]
