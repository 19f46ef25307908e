"""The best monotonic path through an alignment, which moves from the first source position to the last.

    D_0(n) = ln a_0(n)                                                    n = 0 or 1
    D_t(n) = ln a_t(n) + max(D_{t-1}(n), D_{t-1}(n-1), D_{t-1}(n-2))      stay, move on, or skip one position
    n_{T-1} = the better of S-1 and S-2;  n_{t-1} from n_t by the move that was the maximum at D_t(n_t)

Of equal paths the one with the smallest last moves is taken. Smaller weights count as `LEAST_WEIGHT`, so that a path
can pass positions where hard weights are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.metrics.padding import flatten

LEAST_WEIGHT = 1e-8
"""The weight that smaller ones count as."""
NO_POSITION = -1
"""The position at padding, and of all steps without a path."""


def monotonic_path(
    alignment: Any, *, source_length: ArrayLike | None = None, target_length: ArrayLike | None = None
) -> NDArray[np.int64]:
    """The source position of each step on the monotonic path with the largest product of weights.

    The path begins at position 0 or 1, stays, moves on or skips one position at a step, and ends at the last position
    or the one before. It has at least (S - 1)/2 steps; for fewer there is no path.

    Args:
        alignment: (..., T, S) weights, an array, a tensor or nested lists; they need not be normalised.
        source_length, target_length: as in `Padding`.

    Returns:
        (..., T); -1 at padding, and for all steps where there is no path.

    Raises:
        ShapeError, RegardError: as `measure`.

    Cost: T operations on (N, S) numbers for all N alignments together.

    >>> monotonic_path([[0.9, 0.1, 0.0], [0.2, 0.1, 0.7], [0.0, 1.0, 0.0], [0.0, 0.1, 0.9]]).tolist()
    [0, 0, 1, 2]
    """
    weights, real, real_steps, leading = flatten(alignment, source_length=source_length, target_length=target_length)
    sources, targets = real.sum(1), real_steps.sum(1)
    count, steps, positions = weights.shape
    if not count or not steps or not positions:
        return np.full((*leading, steps), NO_POSITION, np.int64)
    moves, scores = _forward(weights, targets)
    rows = np.arange(count)
    last = np.maximum(sources - 1, 0)
    before = np.maximum(sources - 2, 0)
    at = np.where(scores[rows, last] >= scores[rows, before], last, before)
    exists = (sources > 0) & (targets > 0) & np.isfinite(scores[rows, at])
    path = np.empty((count, steps), np.int64)
    for t in range(steps - 1, -1, -1):
        path[:, t] = at
        at = at - moves[t, rows, at]
    path[(np.arange(steps) >= targets[:, None]) | ~exists[:, None]] = NO_POSITION
    return path.reshape(*leading, steps)


def _forward(weights: NDArray[np.float64], targets: NDArray[np.int64]) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """The move that led to each position at each step (T, N, S), and D at the last real step of each alignment (N, S).

    There are no moves at padding. Positions after the end of a source need no mask, as no path leads back from them.
    """
    count, steps, positions = weights.shape
    moves = np.zeros((steps, count, positions), np.int8)
    scores = np.full((count, positions), -np.inf)
    for t in range(steps):
        energies = np.log(np.maximum(weights[:, t], LEAST_WEIGHT))
        if t == 0:
            scores[:, :2] = energies[:, :2]
            continue
        best, move = scores.copy(), moves[t]
        for size in (1, 2):
            better = scores[:, :-size] > best[:, size:]
            np.copyto(best[:, size:], scores[:, :-size], where=better)
            move[:, size:][better] = size
        real = t < targets
        move[~real] = 0
        scores = np.where(real[:, None], best + energies, scores)
    return moves, scores
