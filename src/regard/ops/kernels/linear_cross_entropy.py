"""A block of logits becomes the gradient of its loss, row by row and in its place.

    top = max_n x_n,  mass = Σ_n e^{x_n - top},  log p_n = x_n - top - log mass
    sums:      -log p_y  and, for smoothing, the mean of -log p_n over the N' tokens with log p_n > -∞
    gradient:  grad_x_n = p_n - (1 - ε) [n = y] - ε / N'  where log p_n > -∞, else 0

e^{x - top} stands in the place of the logits before the gradient does: no other row of N numbers is made.
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
"""Innermost steps that a number counts for, its exponential included."""


def turn(logits: Tensor, targets: Tensor, silent: Tensor, smoothing: float, sums: Tensor, gradient: bool) -> None:
    """Writes -log p(y) and the mean of -log p of every row, and the gradient over the logits if it is wanted.

    Args:
        logits: (M, N).
        targets: (M,).
        silent: ids that are never predicted: log p = -∞.
        smoothing: ε.
        sums: (M, 2) in float64; without smoothing the mean is left out.
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
    faintest = power(low)  # where `power` ends
    for i in range(start, stop):
        row, target = logits[i], targets[i]
        for n in silent:
            row[n] = low
        top = largest(row)
        # taken before the row is written over
        target_logit = row[target] - top
        total, possible = zero, zero
        # Σ (x_n - top) and N', over the possible tokens
        if smoothing != zero:
            for d in range(len(row)):
                total += row[d] - top if row[d] > low else zero
            for d in range(len(row)):
                possible += one if row[d] > low else zero
        # e^{x - top} in the place of the logits, to be scaled to p below; `power` is e^{2x}, and not 0 for -∞
        mass = zero
        for d in range(len(row)):
            exponential = zero if row[d] == low else power(half * (row[d] - top))
            row[d] = exponential
            mass += exponential
        # log mass in float64, as the loss of all rows is summed in it
        normaliser = math.log(np.float64(mass))
        sums[i, 0] = normaliser - target_logit
        if smoothing != zero:
            sums[i, 1] = normaliser - total / possible
        if not gradient:
            continue
        if mass > zero:
            # exponentials that `power` has cut, at `faintest`, are of numbers far below: their p counts as 0. With
            # smoothing every possible token has its ε / N', and only impossible ones get 0
            inverse = one / mass
            each = smoothing / possible if smoothing != zero else zero
            least = zero if smoothing != zero else faintest
            for d in range(len(row)):
                row[d] = row[d] * inverse - each if row[d] > least else zero
            row[target] -= one - smoothing
        else:  # NaN, or no token is possible
            row[:] = kind(np.nan)
        # also in a row of NaN: silent logits are constants
        for n in silent:
            row[n] = zero
