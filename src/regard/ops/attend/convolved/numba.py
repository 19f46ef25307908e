"""Kernels of dynamic convolution attention; equations and shapes are in `regard.ops.attend.convolved`.

Loops over d, the features of u, are vector instructions; a row's α are single numbers, of which zeros are passed over.
Threads share the rows (`start` to `stop`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.ops.compiled import called, compiled
from regard.ops.compiled.elementary import power


@called
def _convolve(s: int, alpha: Any, matrix: Any, bias: Any, u: Any) -> None:
    """u (D) of position s from α (S) and M (W, D)."""
    width, size = matrix.shape
    first = s - width // 2
    for d in range(size):
        u[d] = bias[d]
    for w in range(max(0, -first), min(width, len(alpha) - first)):
        factor, row = alpha[first + w], matrix[w]
        if factor != 0:
            for d in range(size):
                u[d] += factor * row[d]


@called
def _prior(s: int, alpha: Any, moves: Any, zero: Any) -> Any:
    """Σ_k P_k α_{s-k}."""
    total = zero
    for k in range(min(len(moves), s + 1)):
        total += moves[k] * alpha[s - k]
    return total


@compiled
def energies(
    past: Any,
    before: Any,
    matrix: Any,
    bias: Any,
    v: Any,
    moves: Any,
    floor: Any,
    large: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """e (B, H, S) from the alignments of the filters, `past`, and of the prior, `before`, both (B, H, S)."""
    heads, size = v.shape
    one = large / large
    half, zero = one / (one + one), one - one
    u = np.empty(size, v.dtype)
    for r in range(start, stop):
        for h in range(heads):
            for s in range(out.shape[2]):
                _convolve(s, past[r, h], matrix[r, h], bias[h], u)
                share = zero
                # Σ v tanh = Σ v (1 - 2 r), r = 1 / (1 + e^{2u}): Σ v (½ - r), doubled once
                for d in range(size):
                    p = power(u[d])
                    share += v[h, d] * (half - one / (one + (large if p > large else p)))
                moved = _prior(s, before[r, h], moves, zero)
                out[r, h, s] = share + share + math.log(floor if moved < floor else moved)


@compiled
def gradients(
    past: Any,
    before: Any,
    matrix: Any,
    bias: Any,
    v: Any,
    moves: Any,
    floor: Any,
    large: Any,
    grad_energies: Any,
    grad_matrix: Any,
    grad_v: Any,
    grad_bias: Any,
    grad_past: Any,
    start: int,
    stop: int,
) -> None:
    """Adds to the gradients of M (B, H, W, D), v and b (B, H, D), and of both alignments together (B, H, S)."""
    (heads, size), (width, positions) = v.shape, (matrix.shape[2], past.shape[2])
    one = large / large
    zero, two, four = one - one, one + one, one + one + one + one
    u, grad_u, ratio = np.empty(size, v.dtype), np.empty(size, v.dtype), np.empty(size, v.dtype)
    for r in range(start, stop):
        for h in range(heads):
            alpha, grad_alpha, of_v, of_bias = past[r, h], grad_past[r, h], grad_v[r, h], grad_bias[r, h]
            for s in range(positions):
                g = grad_energies[r, h, s]
                if g == 0:
                    continue
                _convolve(s, alpha, matrix[r, h], bias[h], u)
                for d in range(size):
                    p = power(u[d])
                    ratio[d] = one / (one + (large if p > large else p))
                for d in range(size):
                    of_v[d] += g * (one - two * ratio[d])
                for d in range(size):
                    grad_u[d] = four * g * v[h, d] * (ratio[d] - ratio[d] * ratio[d])
                for d in range(size):
                    of_bias[d] += grad_u[d]
                first = s - width // 2
                for w in range(max(0, -first), min(width, positions - first)):
                    factor, row, target = alpha[first + w], matrix[r, h, w], grad_matrix[r, h, w]
                    total = zero
                    for d in range(size):
                        total += grad_u[d] * row[d]
                    grad_alpha[first + w] += total
                    if factor != 0:
                        for d in range(size):
                            target[d] += factor * grad_u[d]
                moved = _prior(s, before[r, h], moves, zero)
                if not moved < floor:
                    for k in range(min(len(moves), s + 1)):
                        grad_alpha[s - k] += moves[k] * g / moved
