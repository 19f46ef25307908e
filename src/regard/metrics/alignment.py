"""Measures of an alignment: of the distribution of its weights, and of its path.

The path consists of the position of the largest weight at each target step, the first one of equal weights; steps
without weight are left out. Rows need not sum to 1 for measures of the path.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from regard.metrics.padding import Matrix, Measured, Padding, measure

NOTHING = float("nan")
"""The mean of no numbers; `numpy.nanmean` over several alignments leaves it out."""


def focus_rate(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """The mean over target steps of the largest weight: 1 if every step attends to one position.

    Weights are not normalised: a row without weight counts as 0. Uniform attention gives 1/S. NaN if T or S is 0.

    Source: Ren et al. 2019, FastSpeech, section 3.3, eq. 5 (F; their S is our T and their T our S); ESPnet's speech
        synthesis reports it as focus rate.

    >>> focus_rate([[1.0, 0.0], [0.5, 0.5]])
    0.75
    """
    return measure(lambda a: float(a.max(axis=1).mean()) if a.size else NOTHING, alignment, **padding)


def diagonality(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """The closeness of weights to the diagonal: 1 on it, 0 for uniform attention, below 0 if worse than uniform.

    Step t is at y = (t + ½)/T and position s at x = (s + ½)/S of the unit square. The distance of a weight from the
    diagonal is max(0, |x - y| - ½·max(1/T, 1/S)), so that a staircase through a matrix that is not square counts as
    diagonal. With D the mean distance over steps,

        diagonality = 1 - D(alignment) / D(uniform).

    Rows are normalised to sum to 1; a row without weight counts as uniform. 1 if T or S is 1, NaN if T or S is 0.

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


def monotonicity(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """The share of the path's moves that stay or go forward.

    1 for a path of one step, NaN for an empty path.

    >>> monotonicity([[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    0.5
    """
    return measure(_monotonicity, alignment, **padding)


def skips(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """The number of positions before the path's last one that it does not visit.

    Later positions do not count (for a path that stops early see `coverage`). A path of fewer steps than positions must
    skip. 0 for an empty path.

    >>> skips([[1, 0, 0, 0], [0, 0, 1, 0]])  # position 1; position 3 is beyond the path
    1
    """
    return measure(_skips, alignment, **padding)


def repeats(alignment: Any, *, longest_stay: int | None = None, **padding: Unpack[Padding]) -> Measured:
    """The number of source positions that the path visits again after leaving them.

    Args:
        longest_stay: if given, positions where the path stays for more consecutive steps count, too (in speech, a
            phoneme that never ends). Each position counts once.

    >>> repeats([[1, 0], [0, 1], [1, 0]])
    1
    >>> repeats([[1, 0], [1, 0], [1, 0], [0, 1]], longest_stay=2)
    1
    """
    return measure(lambda a: _repeats(a, longest_stay), alignment, **padding)


def _path(a: Matrix) -> NDArray[np.intp]:
    """The position of the largest weight of each step that has weight."""
    return a[a.any(axis=1)].argmax(axis=1) if a.size else np.empty(0, np.intp)


def _monotonicity(a: Matrix) -> float:
    moves = np.diff(_path(a))
    if not len(moves):
        return 1.0 if a.any() else NOTHING
    return float((moves >= 0).mean())


def _skips(a: Matrix) -> int:
    path = _path(a)
    return int(path.max()) + 1 - len(np.unique(path)) if len(path) else 0


def _repeats(a: Matrix, longest_stay: int | None) -> int:
    path = _path(a)
    starts = np.flatnonzero(np.diff(path, prepend=-1))
    visited, visits = np.unique(path[starts], return_counts=True)
    counted = set(visited[visits > 1].tolist())
    if longest_stay is not None:
        stays = np.diff(starts, append=len(path))
        counted |= set(path[starts[stays > longest_stay]].tolist())
    return len(counted)


@dataclass(frozen=True, slots=True)
class AlignmentHealth:
    """The measures of an alignment: numbers, or arrays shaped like the leading axes of the alignment."""

    focus_rate: Measured
    diagonality: Measured
    coverage: Measured
    soft_coverage: Measured
    monotonicity: Measured
    entropy: Measured
    normalised_entropy: Measured
    skips: Measured
    repeats: Measured

    def mean(self) -> AlignmentHealth:
        """The mean of each measure over all leading axes, without NaN."""
        arrays = (np.asarray(getattr(self, field.name), float) for field in dataclasses.fields(self))
        defined = (array[~np.isnan(array)] for array in arrays)
        return AlignmentHealth(*(float(array.mean()) if array.size else NOTHING for array in defined))

    @property
    def text(self) -> str:
        """One line of text, with the means of several alignments."""
        count = np.size(self.focus_rate)
        if np.ndim(self.focus_rate):
            return f"mean of {count}: {self.mean().text}" if count else "no alignments"
        return (
            f"focus {self.focus_rate:.2f}, diagonality {self.diagonality:.2f}, coverage {self.coverage:.0%}, "
            f"monotonicity {self.monotonicity:.0%}, entropy {self.entropy:.2f} nats "
            f"({self.normalised_entropy:.0%}), skips {self.skips:.4g}, repeats {self.repeats:.4g}"
        )


def summary(
    alignment: Any, *, threshold: float = 0.5, longest_stay: int | None = None, **padding: Unpack[Padding]
) -> AlignmentHealth:
    """All measures of an alignment (..., T, S), with `threshold` of `coverage` and `longest_stay` of `repeats`.

    >>> print(summary([[0.9, 0.1], [0.2, 0.8]]).text)
    focus 0.85, diagonality 0.70, coverage 100%, monotonicity 100%, entropy 0.41 nats (60%), skips 0, repeats 0
    """
    return AlignmentHealth(
        focus_rate=focus_rate(alignment, **padding),
        diagonality=diagonality(alignment, **padding),
        coverage=coverage(alignment, threshold=threshold, **padding),
        soft_coverage=soft_coverage(alignment, **padding),
        monotonicity=monotonicity(alignment, **padding),
        entropy=entropy(alignment, **padding),
        normalised_entropy=normalised_entropy(alignment, **padding),
        skips=skips(alignment, **padding),
        repeats=repeats(alignment, longest_stay=longest_stay, **padding),
    )
