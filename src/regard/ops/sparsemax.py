"""Sparsemax, its threshold by sorting.

    z = e - max e,  z_(1) ≥ z_(2) ≥ …,  c_k = Σ_{j ≤ k} z_(j) - 1
    k the largest with k z_(k) > c_k,  τ = c_k / k
    forward:   w_s = max(z_s - τ, 0)
    backward:  grad_e_s = g_s - mean of g over w > 0, where w_s > 0, else 0

The largest k entries are those with a weight above 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.forward_mode import FromOutput, FromOutputWithTangents, apply
from regard.ops.support import confine, descend
from regard.shapes import Bool, Float


def sparsemax(
    energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None = None
) -> Float[Tensor, "*rows S"]:
    """w_s = max(e_s - τ, 0) with τ such that Σ_s w_s = 1: the distribution over the support that is nearest to e.

    Weights of energies more than 1 below the largest are exactly 0, as are those outside the support. A row without
    support gives zero weights and zero gradient. Half types are computed in float32.

    Gradient: the weights above zero share it less its mean over them, ∂w/∂e = diag(m) - m mᵀ/Σm with m_s = 1 where
    w_s > 0; where a weight just reaches zero, it counts as zero. Can be differentiated again.

    Cost: one sort of S numbers a row.

    Source: Martins & Astudillo 2016 (arXiv 1602.02068), algorithm 1 and section 2.5.

    >>> sparsemax(torch.tensor([[1.0, 0.5, -1.0], [3.0, 0.0, 0.0]]))
    tensor([[0.7500, 0.2500, 0.0000],
            [1.0000, 0.0000, 0.0000]])
    """
    if energies.shape[-1] == 0:
        return torch.zeros_like(energies)
    weights: Tensor = apply(_Projection, _ProjectionWithTangents, confine(energies, support))
    return weights.to(energies.dtype)


class _Projection(FromOutput):
    """The Euclidean projection onto the simplex; -∞ stays out of it."""

    @staticmethod
    def forward(energies: Tensor) -> Tensor:
        z = descend(energies).clamp(min=-1)  # never in the support from there on, and finite
        ordered = z.sort(-1, descending=True).values
        k = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        # the condition holds for the first k and for no later one, so that counting finds k
        excess = ordered.cumsum(-1) - 1
        count = (k * ordered > excess).sum(-1, keepdim=True)
        # a row with NaN or ∞ has no k, and becomes NaN
        threshold = excess.gather(-1, (count - 1).clamp(min=0)) / count
        return (z - threshold).clamp(min=0).masked_fill(energies.isneginf(), 0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return _centred(gradients[0], weights)


class _ProjectionWithTangents(FromOutputWithTangents, _Projection):
    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return _centred(tangents[0], weights)


def _centred(x: Tensor, weights: Tensor) -> Tensor:
    """∂w/∂e, which is symmetric, times x."""
    out = weights <= 0
    inside = x.masked_fill(out, 0)  # infinite gradients outside must not become NaN
    mean = inside.sum(-1, keepdim=True) / (~out).sum(-1, keepdim=True).clamp(min=1)
    return (inside - mean).masked_fill(out, 0)
