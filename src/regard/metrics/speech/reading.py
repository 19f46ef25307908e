"""Reading errors of free runs: skipped, repeated, cut off and added speech."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import ShapeError
from regard.metrics.padding import as_array, flatten
from regard.metrics.table import ItemArrays

SKIPPED_MASS = 0.1
"""A unit is skipped if its weights sum to less over all steps."""
RETURN = 2
"""The least distance of a step from the farthest position so far, for a return."""
BABBLE = 2.0
"""Speech is babble if it is longer than the reference by more than this factor."""


@dataclass(frozen=True, eq=False, slots=True)
class ReadingErrors(ItemArrays):
    """The reading errors of sentences; all arrays are (B,).

    Args:
        num_units: units that should be read.
        skipped: those whose weights sum to less than 0.1.
        repeated: the number of returns: the path of the largest weights goes back by two positions or more.
        is_cut: whether the path does not reach the last unit that should be read.
        is_babble: whether the speech is longer than twice the reference; False without a reference.
        has_ended: whether the sentence ended by itself, and not by the length limit.
    """

    num_units: NDArray[np.int64]
    skipped: NDArray[np.int64]
    repeated: NDArray[np.int64]
    is_cut: NDArray[np.bool_]
    is_babble: NDArray[np.bool_]
    has_ended: NDArray[np.bool_]

    @property
    def errors(self) -> NDArray[np.int64]:
        """(B,) all errors: skipped units, returns, one for a cut and one for babble."""
        return self.skipped + self.repeated + self.is_cut + self.is_babble

    @property
    def is_clean(self) -> NDArray[np.bool_]:
        """(B,) whether each sentence has no error and ended by itself."""
        return (self.errors == 0) & self.has_ended

    @property
    def clean_share(self) -> float:
        """The share of clean sentences; NaN without sentences."""
        return float(self.is_clean.mean()) if len(self) else float("nan")

    def per_hundred(self, name: str = "errors") -> float:
        """The errors, or those of a field such as `skipped`, per 100 units that should be read; NaN without units."""
        units = int(self.num_units.sum())
        return 100 * float(getattr(self, name).sum()) / units if units else float("nan")

    def __str__(self) -> str:
        kinds = {"skipped": self.skipped, "repeated": self.repeated, "cut": self.is_cut, "babble": self.is_babble}
        counts = ", ".join(f"{int(values.sum())} {name}" for name, values in kinds.items())
        running = int((~self.has_ended).sum())
        rate, clean = self.per_hundred(), int(self.is_clean.sum())
        return f"reading errors {rate:.2f} per 100 units ({counts}), {clean} of {len(self)} sentences read through" + (
            f", {running} did not end" if running else ""
        )


def reading_errors(
    alignment: Any,
    *,
    source_length: ArrayLike | None = None,
    target_length: ArrayLike | None = None,
    is_read: ArrayLike | None = None,
    duration: ArrayLike | None = None,
    reference_duration: ArrayLike | None = None,
    has_ended: ArrayLike | None = None,
) -> ReadingErrors:
    """The reading errors of free-running sentences.

    With the path p_t of the largest weights and its farthest position so far f_t = max_{u ≤ t} p_u,

        skipped(n): Σ_t a_t(n) < 0.1        repeated: runs of steps with f_t - p_t ≥ 2        cut: f_{T-1} < last unit.

    A step without weight has the position of the step before. Units after a cut are skipped, too.

    Args:
        alignment: (T, S) of one sentence or (B, T, S), of a free run.
        source_length, target_length: () or (B,), as in `Padding`.
        is_read: (S,) or (B, S) bool, the units that should be read; all if None. Silent units should be False: an end
            symbol, blanks, punctuation, silent letters (see `Intervals.is_heard`).
        duration, reference_duration: () or (B,) of the speech and its reference, in any unit; both or none.
        has_ended: () or (B,) bool, whether the sentence ended by itself; True if None.

    Raises:
        ShapeError: for values of other shapes.
        RegardError: as `regard.metrics.padding.measure`.

    >>> alignment = np.eye(6)[[0, 1, 2, 0, 1, 2, 3, 5]]
    >>> print(reading_errors(alignment))
    reading errors 33.33 per 100 units (1 skipped, 1 repeated, 0 cut, 0 babble), 0 of 1 sentences read through
    """
    weights, real, _, leading = flatten(alignment, source_length=source_length, target_length=target_length)
    count, steps, positions = weights.shape
    if len(leading) > 1:
        raise ShapeError(
            f"Reading errors take one alignment per sentence, (T, S) or (B, T, S); got {leading} before (T, S)."
        )
    if (duration is None) != (reference_duration is None):
        raise ShapeError(
            "Give duration and reference_duration, or neither: babble is speech much longer than its reference."
        )
    read = real.copy()
    if is_read is not None:
        read &= _broadcast("is_read", is_read, (count, positions), bool)
    path = _path(weights)
    farthest = np.maximum.accumulate(path, axis=1)
    behind = farthest - path >= RETURN
    returns = behind & ~np.pad(behind, ((0, 0), (1, 0)))[:, :-1]
    last = np.where(read, np.arange(positions), -1).max(axis=1, initial=-1)
    reached = farthest[:, -1] if steps else np.full(count, -1)
    babble = np.zeros(count, bool)
    if duration is not None and reference_duration is not None:
        reference = _broadcast("reference_duration", reference_duration, (count,), float)
        babble = _broadcast("duration", duration, (count,), float) > BABBLE * reference
    return ReadingErrors(
        num_units=read.sum(axis=1),
        skipped=((weights.sum(axis=1) < SKIPPED_MASS) & read).sum(axis=1),
        repeated=returns.sum(axis=1),
        is_cut=reached < last,
        is_babble=babble,
        has_ended=np.ones(count, bool) if has_ended is None else _broadcast("has_ended", has_ended, (count,), bool),
    )


def _path(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """(N, T) the position of the largest weight; without weight that of the last step with weight, or -1."""
    count, steps, positions = weights.shape
    if not positions:
        return np.full((count, steps), -1)
    latest = np.maximum.accumulate(np.where(weights.any(axis=2), np.arange(steps), -1), axis=1)
    path = np.take_along_axis(weights.argmax(axis=2), np.maximum(latest, 0), axis=1)
    return np.where(latest >= 0, path, -1)


def _broadcast(name: str, values: ArrayLike, shape: tuple[int, ...], kind: type) -> NDArray[Any]:
    """An argument broadcast to all sentences."""
    array = as_array(values, f"{name}: ")
    if kind is bool and array.dtype != bool:
        raise ShapeError(f"{name} must be bool; got {array.dtype}.")
    if array.shape not in (shape, shape[1:]):
        raise ShapeError(f"{name} must be {shape}, or {shape[1:]} for all sentences; got {array.shape}.")
    return np.broadcast_to(array, shape)
