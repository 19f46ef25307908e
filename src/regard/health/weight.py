"""Measures of how weight is spread: focus rate, diagonality, coverage and entropy."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from regard.health.padding import Matrix, Measured, Padding, measure

NOTHING = float("nan")
"""The mean of nothing. `numpy.nanmean` over several alignments leaves such items out."""


def focus_rate(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """The mean over target steps of the largest weight: 1 if every step attends to one position.

    Weights are not normalised: a row that sums to less than 1 cannot reach 1, a row without weight counts as 0.
    Uniform attention gives 1/S. NaN if T or S is 0.

    Source: Ren et al. 2019, FastSpeech, section 3.3, eq. 5 (F; their S is our T and their T our S); ESPnet's speech
        synthesis reports it as focus rate.

    >>> focus_rate([[1.0, 0.0], [0.5, 0.5]])
    0.75
    """
    return measure(lambda a: float(a.max(axis=1).mean()) if a.size else NOTHING, alignment, **padding)


def diagonality(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """How near the weights are to the diagonal: 1 on it, 0 for uniform attention, below 0 if worse than uniform.

    Step t is at y = (t + ½)/T and position s at x = (s + ½)/S of the unit square. The distance of a weight from the
    diagonal is |x - y| beyond half a cell of the coarser axis, max(0, |x - y| - ½·max(1/T, 1/S)), so that a staircase
    through a matrix that is not square counts as diagonal. With D the mean distance over steps,

        diagonality = 1 - D(alignment) / D(uniform).

    Rows are normalised to sum to 1; a row without weight counts as uniform. The result is 1 if T or S is
    1, as there is no direction, and NaN if T or S is 0.

    >>> diagonality([[1.0, 0.0], [0.0, 1.0]]), diagonality([[0.5, 0.5], [0.5, 0.5]])
    (1.0, 0.0)
    """
    return measure(_diagonality, alignment, **padding)


def coverage(alignment: Any, *, threshold: float = 0.5, **padding: Unpack[Padding]) -> Measured:
    """The share of source positions whose total weight over all steps is at least `threshold`.

    Weights are not normalised. 0 if T is 0; NaN if S is 0.

    >>> coverage([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]])
    0.6666666666666666
    """
    return measure(
        lambda a: float((a.sum(axis=0) >= threshold).mean()) if a.shape[1] else NOTHING, alignment, **padding
    )


def soft_coverage(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """The mean over source positions of their total weight, at most 1 each: coverage without a threshold.

    Weights are not normalised; T steps cannot cover more than T/S. 0 if T is 0; NaN if S is 0.

    Source: the quantity whose logarithm is the coverage penalty of Wu et al. 2016, GNMT, eq. 14.

    >>> soft_coverage([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]])
    0.5833333333333334
    """
    return measure(
        lambda a: float(np.minimum(a.sum(axis=0), 1).mean()) if a.shape[1] else NOTHING, alignment, **padding
    )


def entropy(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """The mean over target steps of the entropy of a row, in nats: 0 if each step attends to one position.

    Rows are normalised to sum to 1; a row without weight counts as uniform. At most log S. NaN if T or S is 0.

    >>> round(entropy([[1.0, 0.0], [0.5, 0.5]]), 4)  # half of log 2
    0.3466
    """
    return measure(_entropy, alignment, **padding)


def normalised_entropy(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """`entropy` over log S: between 0 and 1, comparable across lengths. 0 if S is 1.

    >>> normalised_entropy([[1.0, 0.0], [0.5, 0.5]])
    0.5
    """
    return measure(
        lambda a: _entropy(a) / math.log(a.shape[1]) if a.shape[1] > 1 else _entropy(a), alignment, **padding
    )


def _distributions(a: Matrix) -> Matrix:
    """Rows that sum to 1; a row without weight becomes uniform."""
    largest = a.max(axis=1, keepdims=True)  # divides by it first, for denormal weights
    scaled = np.divide(a, largest, out=np.ones_like(a), where=largest > 0)
    return scaled / scaled.sum(axis=1, keepdims=True)


def _diagonality(a: Matrix) -> float:
    if not a.size:
        return NOTHING
    steps, positions = a.shape
    if steps == 1 or positions == 1:
        return 1.0
    y, x = (np.arange(steps) + 0.5) / steps, (np.arange(positions) + 0.5) / positions
    distance = np.maximum(0, np.abs(x - y[:, None]) - 0.5 / min(steps, positions))
    return float(1 - (_distributions(a) * distance).sum(axis=1).mean() / distance.mean())


def _entropy(a: Matrix) -> float:
    if not a.size:
        return NOTHING
    p = _distributions(a)
    logarithms = np.log(p, out=np.zeros_like(p), where=p > 0)
    return float(-(p * logarithms).sum(axis=1).mean()) + 0.0
