"""Softmax over a support, and log-probabilities, as compiled loops that overwrite energies and logits.

    top = max_s e_s over the support,  p_s = e^{e_s - top} in the support, else 0,  w_s = p_s / Σ p
    backward:  grad_e_s = w_s (grad_w_s - Σ_i w_i grad_w_i)
    top = max_n x_n,  total = Σ_n e^{x_n - top},  rest = log total,  log p_n = (x_n - top) - rest

`power(x)` is e^{2x}, so that e^y = power(y / 2).
"""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np
from torch import Tensor

from regard.ops.kernels.compiled import compiled, inlined
from regard.ops.kernels.compiled.elementary import REACH, power
from regard.ops.kernels.compiled.order import from_ordinal, largest, ordinal
from regard.ops.threads import parallel_for

WORK_PER_ELEMENT = 8
"""Innermost steps of a number, with its exponential."""


def weigh(energies: Tensor, support: Tensor | None) -> Tensor:
    """Overwrites contiguous energies (*rows, S) with weights; a support that broadcasts is not expanded."""
    x = energies.detach()
    if x.numel():
        rows, mask = _rows_of(x, support)
        flat = x.view(*rows, x.shape[-1]).numpy()
        parallel_for(_weigh, (flat, mask, 2 * REACH[flat.dtype]), prod(rows), x.numel())
    return energies


def pull_back(gradient: Tensor, weights: Tensor) -> Tensor:
    """Overwrites the gradient of the weights with that of the energies; both contiguous, (*rows, S)."""
    if gradient.numel():
        width = gradient.shape[-1]
        flat = gradient.detach().view(-1, width).numpy(), weights.detach().view(-1, width).numpy()
        parallel_for(_pull_back, flat, len(flat[0]), gradient.numel())
    return gradient


def _rows_of(energies: Tensor, support: Tensor | None) -> tuple[tuple[int, int], Any]:
    """The shape (A, M) of the rows of energies, M of which share a row of the support, and the support (A, S).

    Without a support M is 1, and the support has no rows.
    """
    if support is None:
        return (prod(energies.shape[:-1]), 1), np.empty((0, 0), np.bool_)
    shape, rows = energies.shape, (1,) * (energies.dim() - support.dim()) + support.shape[:-1]
    # A: axes up to the last in which the support differs: (B, H, T, S) with a support (B, 1, 1, S) has A = B, M = H·T
    apart = max((axis + 1 for axis, size in enumerate(rows) if size > 1), default=0)
    mask = support.expand(*shape[:apart], *(1 for _ in shape[apart:-1]), shape[-1]).reshape(-1, shape[-1])
    return (len(mask), prod(shape[apart:-1])), mask.contiguous().numpy()


@compiled
def _weigh(energies: Any, support: Any, reach: Any, start: int, stop: int) -> None:
    """energies (A, M, S), support (A, S) or without rows; for the rows start … stop of A · M."""
    sharing, width = energies.shape[1:]
    # constants of the energies' type, as literals would be float64
    zero = reach - reach
    one = reach / reach
    half = one / (one + one)
    lowest = -one / zero
    for row in range(start, stop):
        x = energies[row // sharing, row % sharing]
        if len(support):
            # the largest as an ordinal, by vector instructions; NaN in the support is the largest
            allowed, highest = support[row // sharing], ordinal(lowest)
            for s in range(width):
                here = ordinal(x[s] if allowed[s] else lowest)
                highest = here if here > highest else highest
            top = from_ordinal(highest)
            # no support: zeros. A support of only -∞ becomes NaN, as by torch's softmax
            if top == lowest and not allowed.any():
                x[:] = zero
                continue
            # selected, as a branch would prevent vector instructions; 0 beyond the reach of `power`
            total = zero
            for s in range(width):
                y = x[s] - top
                p = zero if y < -reach else power(half * y)
                p = p if allowed[s] else zero
                x[s] = p
                total += p
            for s in range(width):
                x[s] = x[s] / total if allowed[s] else zero
        else:
            # the same without a support
            top = largest(x)
            total = zero
            for s in range(width):
                y = x[s] - top
                p = zero if y < -reach else power(half * y)
                x[s] = p
                total += p
            for s in range(width):
                x[s] /= total


@compiled
def _pull_back(gradient: Any, weights: Any, start: int, stop: int) -> None:
    """g ← w_s (g_s - Σ w g).

    Positions with w = 0 are left out of the sum and get 0, as 0 · ∞ would be NaN.
    """
    for row in range(start, stop):
        g, w = gradient[row], weights[row]
        zero = w.dtype.type(0)
        mean = zero
        for s in range(len(g)):
            mean += w[s] * g[s] if w[s] != zero else zero
        for s in range(len(g)):
            g[s] = w[s] * (g[s] - mean) if w[s] != zero else zero


def log_softmax(logits: Tensor) -> Tensor:
    """As `ops.log_softmax`, for contiguous rows (R, N)."""
    rows = logits.numpy()
    parallel_for(_normalise, (rows,), len(rows), WORK_PER_ELEMENT * rows.size)
    return logits


@inlined
def _less(x: Any, top: Any, rest: Any) -> Any:
    """(x - top) - rest in this order: x - top is near 0 for likely tokens and rounds little, unlike top + rest.

    Its own function, as kernels may reorder sums.
    """
    return (x - top) - rest


@compiled
def _normalise(logits: Any, start: int, stop: int) -> None:
    half = logits.dtype.type(0.5)
    for row in range(start, stop):
        x = logits[row]
        top = largest(x)  # NaN if there is one, which makes the row NaN
        # e^y = power(y / 2), as `power` is e^{2x}
        total = half - half
        for i in range(len(x)):
            total += power(half * (x[i] - top))
        rest = logits.dtype.type(math.log(total))
        for i in range(len(x)):
            x[i] = _less(x[i], top, rest)
