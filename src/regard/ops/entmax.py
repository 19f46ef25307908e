"""Distributions between softmax (α = 1) and sparsemax (α = 2), and sparsemax itself."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.ops.autograd import FromOutput, FromOutputWithTangents, apply
from regard.ops.choose import Implementation, choose
from regard.ops.softmax import confine, descend
from regard.shapes import Bool, Float

NEAR = 0.5
"""Up to this x, φ(x) = (eˣ - 1 - x) / x² is computed by its series, as the difference would lose digits."""
SERIES = tuple(1 / math.factorial(k + 2) for k in range(13, -1, -1))
"""The coefficients 1 / (k + 2)! of φ, in the order of Horner's rule."""


def entmax(
    energies: Float[Tensor, "*rows S"],
    support: Bool[Tensor, "*#rows S"] | None = None,
    alpha: Float[Tensor, "*#rows 1"] | float = 1.5,
) -> Float[Tensor, "*rows S"]:
    """w_s = max((α - 1) e_s - τ, 0)^{1/(α - 1)} with τ such that Σ_s w_s = 1.

    α = 1 is softmax, 2 is sparsemax; the larger α, the more weights are exactly 0. Weights outside the support are 0. A
    row without support gives zero weights and zero gradients. Half types are computed in float32.

    Gradient: ∂w/∂e = diag(r) - r rᵀ/Σr with r_s = w_s^{2 - α} where w_s > 0; that of α is exact, also near 1. Second
    derivatives exist.

    Args:
        alpha: α ≥ 1, a number, or a tensor that is broadcast over S: (H, 1) is one for each head.

    Source: Peters, Niculae & Martins 2019 (arXiv 1905.05702), section 3 and algorithms 1 and 2; ∂w/∂α: Correia,
    Niculae & Martins 2019 (arXiv 1909.00015), proposition 1.

    >>> import torch
    >>> entmax(torch.tensor([[1.0, 0.0, -1.5]]))
    tensor([[0.8307, 0.1693, 0.0000]])
    """
    return choose(ENTMAX, energies, support, alpha).function(energies, support, alpha)


def bisect(
    energies: Float[Tensor, "*rows S"],
    support: Bool[Tensor, "*#rows S"] | None = None,
    alpha: Float[Tensor, "*#rows 1"] | float = 1.5,
) -> Float[Tensor, "*rows S"]:
    """Entmax in the form w_s = [1 + δ (e_s - τ)]₊^{1/δ} with δ = α - 1, which is exp(e_s - τ) in the limit δ = 0.

    With n energies whose largest is 0, τ lies between 0 and (1 - n^{-δ})/δ. Only numbers that vanish with δ are divided
    by it.

    Numerics: α = 1 is computed as the next larger number, whose weights are softmax's to rounding.

    Cost: 32 exponentials and logarithms per position in float32, 64 in float64.
    """
    if not isinstance(alpha, Tensor):
        if alpha < 1:
            raise ValueError(f"alpha={alpha} must be 1 (softmax) or more; 2 is sparsemax.")
        alpha = energies.new_full((), alpha, dtype=torch.promote_types(energies.dtype, torch.float32))
    if energies.shape[-1] == 0:
        return torch.zeros_like(energies)
    confined = confine(energies, support)
    alpha = alpha.to(confined.dtype).expand(*energies.shape[:-1], 1)
    weights: Tensor = apply(_Entmax, _EntmaxWithTangents, confined, alpha)
    return weights.to(energies.dtype)


class _Entmax(torch.autograd.Function):
    """α-entmax of energies (…, S) with α (…, 1); 0 where the energy is -∞.

    Backward:  share_s = w_s^{1 - δ} (∂w/∂e at a fixed τ),  growth_s = ∂w_s/∂α at a fixed τ,
               centred_s = g_s - Σ share g / Σ share  (τ moves so that Σ w stays 1),
               grad_e_s = share_s centred_s,  grad_α = Σ_s growth_s centred_s
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(energies: Tensor, alpha: Tensor) -> Tensor:
        z, out, delta = descend(energies), energies.isneginf(), _above_one(alpha)
        # τ in [low, high]: at 0 the largest energy weighs 1 by itself; at (1 - n^{-δ}) / δ no weight is above 1 / n
        count = (~out).sum(-1, keepdim=True).clamp(min=1)
        low, high = torch.zeros_like(delta), -torch.expm1(-delta * count.log()) / delta
        # each pass halves the interval, and as many passes as a number has bits leave only its rounding
        for _ in range(torch.finfo(z.dtype).bits):
            middle = (low + high) / 2
            heavy = _weights(z, middle, delta).sum(-1, keepdim=True) >= 1
            low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
        # divided by their sum, which the threshold's rounding leaves near 1; a row of only -∞ stays 0
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
        # at a fixed τ; then with the movement of τ that keeps the sum of the weights
        moved = torch.zeros_like(share)
        if tangents[0] is not None:
            moved = moved + share * tangents[0].masked_fill(share == 0, 0)
        if tangents[1] is not None:
            moved = moved + growth * tangents[1]
        return moved - share * moved.sum(-1, keepdim=True) / total


def _slopes(weights: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """∂w/∂e and ∂w/∂α at a fixed τ, both 0 where w is 0, and the sum of the first."""
    delta, out = _above_one(alpha), weights <= 0
    # w^{2 - α} = e^{(1 - δ) log w}; log of 1 in place of 0, so that second derivatives are finite too
    safe = weights.masked_fill(out, 1)
    share = (safe.log() * (1 - delta)).exp().masked_fill(out, 0)
    total = share.sum(-1, keepdim=True)
    return share, _growth(safe, delta).masked_fill(out, 0), total.masked_fill(total == 0, 1)


def _above_one(alpha: Tensor) -> Tensor:
    """δ = α - 1, at least the smallest step above 0."""
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


def sorting_reason(energies: Tensor | None = None, support: Tensor | None = None, alpha: Any = 1.5) -> str | None:
    """Why the threshold has no closed form, or None."""
    if not isinstance(alpha, Tensor) and alpha in (1.5, 2):
        return None
    return f"alpha={alpha if isinstance(alpha, (int, float)) else 'tensor'}: only 1.5 and 2 have a closed form"


def sort(
    energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None = None, alpha: float = 1.5
) -> Float[Tensor, "*rows S"]:
    """Entmax by sorting each row: the largest support whose threshold lies below its smallest energy."""
    if alpha == 2:
        return sparsemax(energies, support)
    if energies.shape[-1] == 0:
        return torch.zeros_like(energies)
    weights: Tensor = apply(_Entmax15, _Entmax15WithTangents, confine(energies, support))
    return weights.to(energies.dtype)


class _Entmax15(FromOutput):
    """w_s = (x_s - τ)₊² with x = e / 2; 0 where the energy is -∞.

    Over the k largest x, with mean M and variance V, Σ (x - τ)² = k (V + (M - τ)²) = 1 gives τ_k = M - √(1/k - V). The
    support is the largest k whose τ_k is not above the k-th x.

    Backward:  share_s = √w_s,  grad_e_s = share_s (g_s - Σ share g / Σ share)
    """

    @staticmethod
    def forward(energies: Tensor) -> Tensor:
        x = (descend(energies) / 2).clamp(min=-1)  # -1 and below are not in the support; clamped, they are finite
        ordered = x.sort(-1, descending=True).values
        # mean, variance and τ_k (…, S) over the k largest, for every k
        k = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
        mean = ordered.cumsum(-1) / k
        variance = ordered.square().cumsum(-1) / k - mean.square()
        # 1/k - V is negative only where k is too large: τ_k is the mean then, which is above the k-th x
        threshold = mean - (1 / k - variance).clamp(min=0).sqrt()
        count = ((threshold <= ordered) & (ordered > -1)).sum(-1, keepdim=True)
        # comparisons with NaN are false, so a row with NaN has the count 0, and index 0 in place of -1
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
    # the root of 1 in place of 0, as the derivative of √0 would be infinite in second derivatives
    share = weights.masked_fill(out, 1).sqrt().masked_fill(out, 0)
    total = share.sum(-1, keepdim=True)
    inside = x.masked_fill(out, 0)
    return share * (inside - (share * inside).sum(-1, keepdim=True) / total.masked_fill(total == 0, 1))


ENTMAX = (Implementation("sorting", sort, sorting_reason), Implementation("reference", bisect))


def sparsemax(
    energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None = None
) -> Float[Tensor, "*rows S"]:
    """w_s = max(e_s - τ, 0) with τ such that Σ_s w_s = 1: the distribution over the support nearest to e.

    With e sorted, e_(1) ≥ e_(2) ≥ …, and c_k = Σ_{j ≤ k} e_(j) - 1, τ = c_k / k for the largest k with k e_(k) > c_k.

    Weights of energies more than 1 below the largest are exactly 0, as are those outside the support. A row without
    support gives zero weights and zero gradient. Half types are computed in float32.

    Gradient: ∂w/∂e = diag(m) - m mᵀ/Σm with m_s = 1 where w_s > 0, else 0. Second derivatives exist.

    Cost: one sort of S numbers per row.

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
    """The Euclidean projection onto the simplex of the positions with finite energies."""

    @staticmethod
    def forward(energies: Tensor) -> Tensor:
        z = descend(energies).clamp(min=-1)  # -1 and below are not in the support; clamped, they are finite
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
        return _centred_on_support(gradients[0], weights)


class _ProjectionWithTangents(FromOutputWithTangents, _Projection):
    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return _centred_on_support(tangents[0], weights)


def _centred_on_support(x: Tensor, weights: Tensor) -> Tensor:
    """∂w/∂e, which is symmetric, times x."""
    out = weights <= 0
    inside = x.masked_fill(out, 0)  # infinite gradients outside must not become NaN
    mean = inside.sum(-1, keepdim=True) / (~out).sum(-1, keepdim=True).clamp(min=1)
    return (inside - mean).masked_fill(out, 0)
