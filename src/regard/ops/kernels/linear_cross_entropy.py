"""The loss of a block of logits, which are overwritten with their gradient, row by row.

    top = max_n x_n,  mass = Σ_n e^{x_n - top},  log p_n = x_n - top - log mass
    sums:      -log p_y  and, for smoothing, the mean of -log p_n over the N' tokens with log p_n > -∞
    gradient:  grad_x_n = p_n - (1 - ε) [n = y] - ε / N'  where log p_n > -∞, else 0

The logits are overwritten with e^{x - top}, then with the gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from regard.ops.kernels.compiled import compiled
from regard.ops.kernels.compiled.elementary import power
from regard.ops.kernels.compiled.order import largest
from regard.ops.threads import parallel_for

WORK_PER_ELEMENT = 8
"""Innermost steps of a number, with its exponential."""


def turn(logits: Tensor, targets: Tensor, silent: Tensor, smoothing: float, sums: Tensor, gradient: bool) -> None:
    """Writes -log p(y) and the mean of -log p of every row, and over the logits their gradient if `gradient`.

    Args:
        logits: (M, N).
        targets: (M,).
        silent: ids that are never predicted: log p = -∞.
        smoothing: ε.
        sums: (M, 2) in float64; the mean only with smoothing.
    """
    block = logits.numpy()
    arguments = (block, targets.numpy(), silent.numpy(), block.dtype.type(smoothing), sums.numpy(), gradient)
    parallel_for(_turn, arguments, len(block), WORK_PER_ELEMENT * block.size)


@compiled
def _turn(
    logits: Any, targets: Any, silent: Any, smoothing: Any, sums: Any, gradient: bool, start: int, stop: int
) -> None:
    kind = logits.dtype.type
    zero, half, one, low = kind(0), kind(0.5), kind(1), kind(-np.inf)
    faintest = power(low)  # the smallest value of `power`
    for i in range(start, stop):
        row, target = logits[i], targets[i]
        for n in silent:
            row[n] = low
        top = largest(row)
        # read before the row is overwritten
        target_logit = row[target] - top
        total, possible = zero, zero
        # Σ (x_n - top) and N', over the possible tokens
        if smoothing != zero:
            for d in range(len(row)):
                total += row[d] - top if row[d] > low else zero
            for d in range(len(row)):
                possible += one if row[d] > low else zero
        # e^{x - top}, scaled to p below; `power` is e^{2x}, and not 0 for -∞
        mass = zero
        for d in range(len(row)):
            exponential = zero if row[d] == low else power(half * (row[d] - top))
            row[d] = exponential
            mass += exponential
        # in float64, as are the sums over rows
        normaliser = math.log(np.float64(mass))
        sums[i, 0] = normaliser - target_logit
        if smoothing != zero:
            sums[i, 1] = normaliser - total / possible
        if not gradient:
            continue
        if mass > zero:
            # p of exponentials that `power` has clamped, `faintest`, counts as 0. With smoothing every possible token
            # has its ε / N', and only impossible ones get 0
            inverse = one / mass
            each = smoothing / possible if smoothing != zero else zero
            least = zero if smoothing != zero else faintest
            for d in range(len(row)):
                row[d] = row[d] * inverse - each if row[d] > least else zero
            row[target] -= one - smoothing
        else:  # NaN, or no token is possible
            row[:] = kind(np.nan)
        # silent logits are constants, also in a row of NaN
        for n in silent:
            row[n] = zero
