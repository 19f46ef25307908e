"""Entmax for any α, its threshold by bisection.

forward:   w_s = [1 + δ (e_s - τ)]₊^{1/δ} with δ = α - 1, τ such that Σ_s w_s = 1
backward:  share_s = w_s^{1 - δ} (∂w/∂e at a fixed τ),  growth_s = ∂w_s/∂α at a fixed τ,
           centred_s = g_s - Σ share g / Σ share  (τ moves so that Σ w stays 1),
           grad_e_s = share_s centred_s,  grad_α = Σ_s growth_s centred_s
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.ops.forward_mode import apply
from regard.ops.support import confine, descend
from regard.shapes import Bool, Float

NEAR = 0.5
"""Up to this x, φ(x) = (eˣ - 1 - x) / x² is summed by its series, as the difference would lose digits."""
SERIES = tuple(1 / math.factorial(k + 2) for k in range(13, -1, -1))
"""Its coefficients 1 / (k + 2)!, the last one first, for Horner's rule."""


def bisect(
    energies: Float[Tensor, "*rows S"],
    support: Bool[Tensor, "*#rows S"] | None = None,
    alpha: Float[Tensor, "*#rows 1"] | float = 1.5,
) -> Float[Tensor, "*rows S"]:
    """Entmax in the form w_s = [1 + δ (e_s - τ)]₊^{1/δ} with δ = α - 1, which is exp(e_s - τ) in the limit δ = 0.

    Here τ lies between 0 and (1 - n^{-δ})/δ, n being the number of energies and 0 the largest of them, and nothing
    is divided by δ that does not vanish with it.

    Numerics: α = 1 is computed as the next larger number, whose weights are softmax's to rounding.

    Cost: 32 exponentials and logarithms a position in float32, 64 in float64.
    """
    if not isinstance(alpha, Tensor):
        if alpha < 1:
            raise ValueError(f"alpha={alpha} must be 1 (softmax) or more; 2 is sparsemax.")
        alpha = energies.new_tensor(alpha, dtype=torch.promote_types(energies.dtype, torch.float32))
    if energies.shape[-1] == 0:
        return torch.zeros_like(energies)
    confined = confine(energies, support)
    alpha = alpha.to(confined.dtype).expand(*energies.shape[:-1], 1)
    weights: Tensor = apply(_Entmax, _EntmaxWithTangents, confined, alpha)
    return weights.to(energies.dtype)


class _Entmax(torch.autograd.Function):
    """α-entmax of energies (…, S) with α (…, 1); 0 where the energy is -∞."""

    generate_vmap_rule = True

    @staticmethod
    def forward(energies: Tensor, alpha: Tensor) -> Tensor:
        z, out, delta = descend(energies), energies.isneginf(), _above_one(alpha)
        # τ in [low, high]: at 0 the largest energy weighs 1 by itself; at (1 - n^{-δ}) / δ no weight is above 1 / n
        count = (~out).sum(-1, keepdim=True).clamp(min=1)
        low, high = torch.zeros_like(delta), -torch.expm1(-delta * count.log()) / delta
        # each pass halves the interval: as many as a number has bits leave only rounding of it, whatever the row
        for _ in range(torch.finfo(z.dtype).bits):
            middle = (low + high) / 2
            heavy = _weights(z, middle, delta).sum(-1, keepdim=True) >= 1
            low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
        # what the threshold still lacks is divided out, so that weights sum to 1; a row of only -∞ stays 0
        weights = _weights(z, low, delta).masked_fill(out, 0)
        total = weights.sum(-1, keepdim=True)
        return weights / total.masked_fill(total == 0, 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output, inputs[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        share, growth, total = _slopes(*ctx.saved_tensors)
        # positions of weight 0 have no share, and an infinite gradient there must not become NaN
        gradient = gradients[0].masked_fill(share == 0, 0)
        centred = gradient - (share * gradient).sum(-1, keepdim=True) / total
        return share * centred, (growth * centred).sum(-1, keepdim=True)


class _EntmaxWithTangents(_Entmax):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output, inputs[1])
        ctx.save_for_forward(output, inputs[1])

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        share, growth, total = _slopes(*ctx.saved_tensors)
        # at a fixed τ first; then τ moves, so that the sum of the weights does not
        moved = torch.zeros_like(share)
        if tangents[0] is not None:
            moved = moved + share * tangents[0].masked_fill(share == 0, 0)
        if tangents[1] is not None:
            moved = moved + growth * tangents[1]
        return moved - share * moved.sum(-1, keepdim=True) / total


def _slopes(weights: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """At a fixed τ: ∂w/∂e and ∂w/∂α, both 0 where w is, and the sum of the first."""
    delta, out = _above_one(alpha), weights <= 0
    # w^{2 - α} = e^{(1 - δ) log w}; log of 1 in place of 0, so that second derivatives are finite too
    safe = weights.masked_fill(out, 1)
    share = (safe.log() * (1 - delta)).exp().masked_fill(out, 0)
    total = share.sum(-1, keepdim=True)
    return share, _growth(safe, delta).masked_fill(out, 0), total.masked_fill(total == 0, 1)


def _above_one(alpha: Tensor) -> Tensor:
    """δ = α - 1, not quite 0."""
    return (alpha - 1).clamp(min=torch.finfo(alpha.dtype).eps)


def _weights(z: Tensor, threshold: Tensor, delta: Tensor) -> Tensor:
    """[1 + δ (z - τ)]₊^{1/δ} as e^{log1p(δ (z - τ)) / δ}, which keeps its digits for a small δ; e^{log1p(-1)} is 0."""
    return (torch.log1p((delta * (z - threshold)).clamp(min=-1)) / delta).exp()


def _growth(weights: Tensor, delta: Tensor) -> Tensor:
    """∂w/∂δ at a fixed τ: -w u² φ(-δ u) with u = log w and φ(x) = (eˣ - 1 - x)/x², by its series where x is small."""
    log = weights.log()
    x = -delta * log
    near = x.clamp(max=NEAR)
    series = torch.zeros_like(x)
    for coefficient in SERIES:
        series = series * near + coefficient
    direct = ((log * (1 - delta)).exp() - weights - weights * x) / delta.square()
    return -torch.where(x < NEAR, weights * log.square() * series, direct)
