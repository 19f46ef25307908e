"""Training, validation and test parts of series, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from regard.data.series.series import SeriesTable
from regard.errors import DataError

Subset = Literal["train", "validation", "test"]
SUBSETS: tuple[Subset, ...] = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """The parts of each series: rows `bounds[p]` to `bounds[p + 1]`, in the order train, validation, test.

    A window belongs to the part with its whole horizon; its history may reach back into the part before, as in
    published evaluations.

    Args:
        bounds: four row numbers in ascending order for each series; rows from the last on are not used.

    >>> TimeSplit(((0, 70, 80, 100),)).rows(0, "validation")
    range(70, 80)
    """

    bounds: tuple[tuple[int, ...], ...]

    def rows(self, series: int, part: Subset) -> range:
        """The rows of a part of the series with this index."""
        start, end = self.bounds[series][SUBSETS.index(part) :][:2]
        return range(start, end)


def split_by_fractions(table: SeriesTable, fractions: Sequence[float] = (0.7, 0.1, 0.2)) -> TimeSplit:
    """Shares of each series' rows for training, validation and test; bounds are rounded down.

    Raises:
        DataError: unless there are three shares of at least 0, the first above 0, with a sum of at most 1.
    """
    if len(fractions) != 3 or min(fractions) < 0 or fractions[0] <= 0 or sum(fractions) > 1 + 1e-9:
        raise DataError(f"Three shares are needed, of at least 0 and together at most 1; got {list(fractions)}.")
    shares = np.cumsum([0, *fractions])
    return TimeSplit(tuple(tuple(int(share * series.end + 1e-6) for share in shares) for series in table.series))


def split_by_counts(table: SeriesTable, counts: Sequence[int]) -> TimeSplit:
    """Numbers of rows for training, validation and test, from the first row of each series; shorter series end early.

    ETTh1 is published with 12, 4 and 4 months of 30 days: counts (8640, 2880, 2880).

    Raises:
        DataError: unless there are three counts of at least 0, the first above 0, or if every series is shorter.
    """
    if len(counts) != 3 or min(counts) < 0 or counts[0] < 1:
        raise DataError(f"Three numbers of rows are needed, of at least 0, the first above 0; got {list(counts)}.")
    bounds = np.array([0, *np.cumsum(counts).tolist()])
    longest = max(table.series, key=lambda series: series.end)
    if longest.end < bounds[-1]:
        raise DataError(f"{_begun(longest.title)} has {longest.end:,} rows; {list(counts)} need {bounds[-1]:,}.")
    return TimeSplit(tuple(tuple(np.minimum(bounds, series.end).tolist()) for series in table.series))


def split_by_dates(
    table: SeriesTable, validation: str | int, test: str | int | None = None, end: str | int | None = None
) -> TimeSplit:
    """A split at the times at which validation and test begin, and at which test ends.

    Args:
        validation, test, end: ISO 8601, as local times of each series unless they have an offset; whole numbers if the
            times of the series are. Without `test`, all rows from `validation` on belong to the validation.

    Raises:
        DataError: for a text that is not a time, times that are not in order, or if no series has training rows.
    """
    texts = [text for text in (validation, test, end) if text is not None]
    bounds: list[tuple[int, ...]] = []
    for series in table.series:
        try:
            starts = [series.clock.read(text) for text in texts]
        except ValueError as error:
            kind = "whole numbers" if series.clock.is_integer else "times in ISO 8601, for example 2024-01-31"
            raise DataError(f"The parts begin at {kind}; {error}.") from None
        if any(later < earlier for earlier, later in pairwise(starts)):
            raise DataError(f"Validation, test and their end are in order of time; got {', '.join(map(str, texts))}.")
        rows = [min(int(np.searchsorted(series.times, start)), series.end) for start in starts]
        bounds.append((0, *rows, *[series.end] * (3 - len(rows))))
    if not any(second for _, second, *_ in bounds):
        first = min(table.series, key=lambda series: series.times[0])
        raise DataError(f"{_begun(first.title)} begins {first.shown(0)}: it has no rows before {validation}.")
    return TimeSplit(tuple(bounds))


def rolling_splits(table: SeriesTable, num_folds: int, test_rows: int, validation_rows: int = 0) -> Iterator[TimeSplit]:
    """Splits for a rolling evaluation: folds of test rows at the end of each series.

    Each fold has all earlier rows for training, except for the validation rows before its test rows; the next fold
    begins `test_rows` later. (A model that is trained once is evaluated on windows with a stride.)

    Raises:
        DataError: if a series is too short.
    """
    for series in table.series:
        if series.end <= num_folds * test_rows + validation_rows:
            raise DataError(
                f"{_begun(series.title)} has {series.end:,} rows; {num_folds} folds of {test_rows:,}, "
                f"{validation_rows:,} of validation and at least one of training are needed."
            )
    for fold in range(num_folds, 0, -1):
        starts = [series.end - fold * test_rows for series in table.series]
        yield TimeSplit(tuple((0, start - validation_rows, start, start + test_rows) for start in starts))


def _begun(title: str) -> str:
    return title[0].upper() + title[1:]
