"""Measures of the path: the position of the largest weight at each target step.

The first of equal weights counts; a step without any weight is left out. So the scale does not matter, and rows need
not sum to 1.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from regard.health.padding import Matrix, Measured, Padding, measure


def monotonicity(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """The share of the path's moves that do not go back; staying is not going back.

    1 for a path of one step, NaN for an empty path.

    >>> monotonicity([[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    0.5
    """
    return measure(_monotonicity, alignment, **padding)


def skips(alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """The number of source positions that the path jumps over and never visits.

    The path starts before the first position, so positions that are left out at the beginning count; those after the
    last position that it reaches do not (for a path that stops early see `coverage`). A path of fewer steps than
    positions must skip. 0 for an empty path.

    >>> skips([[1, 0, 0, 0], [0, 0, 1, 0]])  # position 1; position 3 is beyond the path
    1
    """
    return measure(_skips, alignment, **padding)


def repeats(alignment: Any, *, longest_stay: int | None = None, **padding: Unpack[Padding]) -> Measured:
    """The number of source positions that the path leaves and comes back to.

    Args:
        longest_stay: if given, positions where the path stays for more than this many steps in a row count, too (in
            speech, a phoneme that never ends). A position counts once, whatever the reason.

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
        return 1.0 if a.any() else float("nan")
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
