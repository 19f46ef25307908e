"""Entmax of α = 1.5 and 2, whose threshold has a closed form when the energies are sorted.

    α = 1.5:  x = e / 2,  w_s = (x_s - τ)₊²,  Σ_s w_s = 1

Over the k largest x, with mean M and variance V, Σ (x - τ)² = k (V + (M - τ)²) = 1 gives τ_k = M - √(1/k - V). The
support is the largest k whose τ_k is not above the k-th x.

    backward:  share_s = √w_s,  grad_e_s = share_s (g_s - Σ share g / Σ share)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.forward_mode import FromOutput, FromOutputWithTangents, apply
from regard.ops.sparsemax import sparsemax
from regard.ops.support import confine, descend
from regard.shapes import Bool, Float


def refuse_sorting(energies: Tensor | None = None, support: Tensor | None = None, alpha: Any = 1.5) -> str | None:
    """There is a closed form for only two numbers."""
    if isinstance(alpha, Tensor):
        return "alpha is a tensor; the threshold has a closed form only for the numbers 1.5 and 2"
    return None if alpha in (1.5, 2) else f"alpha={alpha}; the threshold has a closed form only for 1.5 and 2"


def sort(
    energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None = None, alpha: float = 1.5
) -> Float[Tensor, "*rows S"]:
    """Entmax by one sort of S numbers a row: the largest support whose own threshold lies below its smallest energy."""
    if alpha == 2:
        return sparsemax(energies, support)
    if energies.shape[-1] == 0:
        return torch.zeros_like(energies)
    weights: Tensor = apply(_Entmax15, _Entmax15WithTangents, confine(energies, support))
    return weights.to(energies.dtype)


class _Entmax15(FromOutput):
    """w = max(e/2 - τ, 0)²; 0 where the energy is -∞."""

    @staticmethod
    def forward(energies: Tensor) -> Tensor:
        x = (descend(energies) / 2).clamp(min=-1)  # never in the support from there on, and finite
        ordered = x.sort(-1, descending=True).values
        # mean, variance and τ_k (…, S) over the k largest, for every k
        k = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
        mean = ordered.cumsum(-1) / k
        variance = ordered.square().cumsum(-1) / k - mean.square()
        # 1/k - V is negative only where k is too large: τ_k is the mean then, which is above the k-th x
        threshold = mean - (1 / k - variance).clamp(min=0).sqrt()
        count = ((threshold <= ordered) & (ordered > -1)).sum(-1, keepdim=True)
        # comparisons with NaN are false, so that a row with NaN has the count 0: index 0 in place of -1
        root = (x - threshold.gather(-1, (count - 1).clamp(min=0))).clamp(min=0)
        return root.square().masked_fill(energies.isneginf(), 0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return _centred(gradients[0], weights)


class _Entmax15WithTangents(FromOutputWithTangents, _Entmax15):
    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return _centred(tangents[0], weights)


def _centred(x: Tensor, weights: Tensor) -> Tensor:
    """∂w/∂e, which is symmetric, times x."""
    out = weights <= 0
    # the root of 1 in place of 0, whose derivative would be infinite in second gradients
    share = weights.masked_fill(out, 1).sqrt().masked_fill(out, 0)
    total = share.sum(-1, keepdim=True)
    inside = x.masked_fill(out, 0)
    return share * (inside - (share * inside).sum(-1, keepdim=True) / total.masked_fill(total == 0, 1))
