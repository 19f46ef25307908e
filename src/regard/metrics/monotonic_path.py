"""The best monotonic path through an alignment, which moves from the first source position to the last.

    D_0(n) = ln a_0(n)                                                    n = 0 or 1
    D_t(n) = ln a_t(n) + max(D_{t-1}(n), D_{t-1}(n-1), D_{t-1}(n-2))      stay, move on, or skip one position
    n_{T-1} = the better of S-1 and S-2;  n_{t-1} from n_t by the move that was the maximum at D_t(n_t)

Of equal paths the one that moves least at the end is taken. Weights below `LEAST_WEIGHT` count as that, so that a path
can pass where hard weights are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import RegardError, ShapeError
from regard.metrics.padding import as_array, real_positions

LEAST_WEIGHT = 1e-8
"""The weight that smaller ones count as."""
NO_POSITION = -1
"""The position of a path at padding, and everywhere where there is no path."""


def monotonic_path(
    alignment: Any, *, source_length: ArrayLike | None = None, target_length: ArrayLike | None = None
) -> NDArray[np.int64]:
    """The source position of each step on the path with the largest product of weights that never goes back.

    The path begins at position 0 or 1, stays, moves on or skips one position at a step, and ends at the last position
    or the one before. So it takes at least (S - 1)/2 steps; with fewer there is none.

    Args:
        alignment: (..., T, S) weights, an array, a tensor or nested lists; they need not be normalised.
        source_length, target_length: how many positions and steps are real; they cover the first leading axes, as in
            `Padding`.

    Returns:
        (..., T); -1 at padding, and for all steps where there is no path.

    Raises:
        ShapeError, RegardError: as other measures.

    Cost: T operations on (N, S) numbers for all N alignments together.

    >>> monotonic_path([[0.9, 0.1, 0.0], [0.2, 0.1, 0.7], [0.0, 1.0, 0.0], [0.0, 0.1, 0.9]]).tolist()
    [0, 0, 1, 2]
    """
    weights, sources, targets, leading = flattened(alignment, source_length, target_length)
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

    At padding no move is made. Positions beyond the end of a source need no mask, as no path comes back from them.
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


def flattened(
    alignment: Any, source_length: ArrayLike | None, target_length: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], tuple[int, ...]]:
    """Weights (N, T, S) that are 0 at padding, the numbers (N,) of real positions and steps, and the leading axes.

    Raises:
        ShapeError, RegardError: as `measure`.
    """
    weights = as_array(alignment)
    if weights.ndim < 2:
        raise ShapeError(f"An alignment must have at least the axes (T, S); got shape {weights.shape}.")
    leading, (steps, positions) = weights.shape[:-2], weights.shape[-2:]
    count = int(np.prod(leading, dtype=np.int64))
    sources = real_positions("source", positions, leading, source_length, None).reshape(count, positions)
    targets = real_positions("target", steps, leading, target_length, None).reshape(count, steps)
    real = targets[:, :, None] & sources[:, None, :]
    weights = np.where(real, weights.reshape(count, steps, positions).astype(np.float64), 0.0)
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        number, step, position = (int(i) for i in np.argwhere(wrong)[0])
        raise RegardError(
            f"Weights must be finite and not negative; alignment {number} has {weights[number, step, position]} at "
            f"target step {step}, source position {position}.\n"
            "  For energies apply the alignment first; for a padded batch give its lengths."
        )
    return weights, sources.sum(1), targets.sum(1), leading
