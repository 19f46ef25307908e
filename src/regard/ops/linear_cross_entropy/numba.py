"""A block of logits becomes the gradient of its loss, row by row and in its place.

∂loss/∂logits = p - (1 - ε)·[y] - ε / N' where log p > -∞; N' such tokens.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.compiled.elementary import power
from regard.ops.compiled.order import largest
from regard.ops.threads import spread

WORK = 8
"""Innermost steps of a number, its exponential included."""


def turn(logits: Tensor, targets: Tensor, silent: Tensor, smoothing: float, sums: Tensor, gradient: bool) -> None:
    """Writes -log p(y) and the mean of -log p of every row, and over the logits their gradient where it is asked for.

    Args:
        logits: (M, N).
        targets: (M,).
        silent: ids that are never said.
        smoothing: ε.
        sums: (M, 2) in float64; without smoothing the mean is left out.
    """
    block = logits.numpy()
    given = (block, targets.numpy(), silent.numpy(), block.dtype.type(smoothing), sums.numpy(), gradient)
    spread(_turn, given, len(block), WORK * block.size)


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
        chosen = row[target] - top
        total, possible = zero, zero
        if smoothing != zero:
            for d in range(len(row)):
                total += row[d] - top if row[d] > low else zero
            for d in range(len(row)):
                possible += one if row[d] > low else zero
        mass = zero
        for d in range(len(row)):
            share = zero if row[d] == low else power(half * (row[d] - top))
            row[d] = share
            mass += share
        normaliser = math.log(np.float64(mass))
        sums[i, 0] = normaliser - chosen
        if smoothing != zero:
            sums[i, 1] = normaliser - total / possible
        if not gradient:
            continue
        if mass > zero:
            inverse = one / mass
            each = smoothing / possible if smoothing != zero else zero
            least = zero if smoothing != zero else faintest
            for d in range(len(row)):
                row[d] = row[d] * inverse - each if row[d] > least else zero
            row[target] -= one - smoothing
        else:  # NaN, or nothing can be said
            row[:] = kind(np.nan)
        for n in silent:
            row[n] = zero
