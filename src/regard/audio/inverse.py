"""Inversion of mel filters: spectra with given energies."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import Float

MAX_STEPS = 50
"""The most steps of Newton's method; usually ten suffice."""
FLOOR = 1e-10
"""The smallest value of a pseudo-inverse, as in references."""
_RIDGE = 1e-9
_TOLERANCE = 1e-9


def pseudo_inverse(
    energies: Float[Tensor, "... T mels"], filters: Float[Tensor, "mels bins"]
) -> Float[Tensor, "... T bins"]:
    """The spectrum of least norm with these energies, clipped at 1e-10, which changes the energies."""
    return (energies.double() @ torch.linalg.pinv(filters.double()).T).clamp(min=FLOOR).to(energies.dtype)


def least_squares(
    energies: Float[Tensor, "... T mels"], filters: Float[Tensor, "mels bins"]
) -> Float[Tensor, "... T bins"]:
    """The non-negative spectrum of least norm with the nearest energies.

    It minimises ½ `‖W m - e‖²` + ½ ρ `‖m‖²` over m ≥ 0, for ρ → 0. With a multiplier λ for each filter, the solution is
    m = max(0, Wᵀλ) where W max(0, Wᵀλ) + ρλ = e, which is piecewise linear in λ and solved by Newton's method. As a
    filter overlaps only with its neighbours, the matrix of a step, W D Wᵀ + ρI with D = 1 where m > 0, is tridiagonal:
    a step costs about as much as some products with W.

    Args:
        filters: W, whose rows overlap only with their neighbours.
    """
    shape, dtype = energies.shape, energies.dtype
    with torch.no_grad():
        weights = filters.double()
        norm = weights.square().sum(1).sqrt()
        weights = weights / norm[:, None]
        e = energies.double().reshape(-1, shape[-1]) / norm
        largest = e.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        spectrum = _newton(e / largest, weights) * largest
    return spectrum.to(dtype).reshape(*shape[:-1], filters.shape[1])


def _newton(e: Tensor, weights: Tensor) -> Tensor:
    """m (R, bins) for energies e (R, mels), the largest of which is 1."""
    squares, products = weights.square(), weights[:-1] * weights[1:]
    everywhere = torch.ones_like(e[:, :1]) @ torch.ones_like(weights[:1])
    multipliers = _solve(everywhere @ squares.T + _RIDGE, everywhere @ products.T, e)
    spectrum = multipliers @ weights
    value = _dual(multipliers, spectrum, e)
    rows = torch.arange(len(e))
    for _ in range(MAX_STEPS):
        # rows that have not converged
        positive = spectrum[rows].clamp(min=0)
        gradient = positive @ weights.T + _RIDGE * multipliers[rows] - e[rows]
        left = gradient.abs().amax(1) > _TOLERANCE
        rows, positive, gradient = rows[left], positive[left], gradient[left]
        if not len(rows):
            break
        active = (positive > 0).double()
        step = _solve(active @ squares.T + _RIDGE, active @ products.T, -gradient)
        slope = (gradient * step).sum(1)
        # backtracking: the step is halved where the function does not decrease enough
        length = torch.ones_like(slope)
        change = step @ weights
        for _ in range(30):
            moved = multipliers[rows] + length[:, None] * step
            at = spectrum[rows] + length[:, None] * change
            after = _dual(moved, at, e[rows])
            short = after > value[rows] + 1e-4 * length * slope
            if not short.any():
                break
            length = torch.where(short, length / 2, length)
        multipliers[rows], spectrum[rows], value[rows] = moved, at, after
    return spectrum.clamp(min=0)


def _dual(multipliers: Tensor, spectrum: Tensor, e: Tensor) -> Tensor:
    """½ `‖max(0, Wᵀλ)‖²` + ½ ρ `‖λ‖²` - e·λ, the function that Newton's method minimises."""
    return (
        spectrum.clamp(min=0).square().sum(1) / 2 + _RIDGE / 2 * multipliers.square().sum(1) - (e * multipliers).sum(1)
    )


def _solve(diagonal: Tensor, beside: Tensor, right: Tensor) -> Tensor:
    """The solutions (R, n) of symmetric tridiagonal systems with `right` (R, n), by elimination.

    Args:
        diagonal, beside: (R, n) and (R, n - 1), the diagonal and the elements beside it.
    """
    diagonals, besides, rights = diagonal.unbind(1), beside.unbind(1), right.unbind(1)
    pivots, values = [diagonals[0]], [rights[0]]
    for at in range(1, len(diagonals)):
        factor = besides[at - 1] / pivots[-1]
        pivots.append(diagonals[at] - factor * besides[at - 1])
        values.append(rights[at] - factor * values[-1])
    solution = [values[-1] / pivots[-1]]
    for at in range(len(diagonals) - 2, -1, -1):
        solution.append((values[at] - besides[at] * solution[-1]) / pivots[at])
    return torch.stack(solution[::-1], 1)
