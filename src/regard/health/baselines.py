"""Times of units without any attention: what an alignment has to be better than."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.intervals import Intervals
from regard.errors import DataError
from regard.health.timing import UnitTimes


def diagonal_times(num_units: int, seconds: float) -> UnitTimes:
    """All units are equally long.

    Args:
        num_units: S.
        seconds: the duration of the sentence.

    >>> diagonal_times(2, 1.0).ends.tolist()
    [0.5, 1.0]
    """
    return _stretched(np.ones(num_units), seconds)


@dataclass(frozen=True, slots=True)
class MeanDurations:
    """The mean duration of each unit in sentences with labels, in seconds; of a unit that they lack, that of all.

    >>> labels = Intervals.of([(0.0, 0.3, "a"), (0.3, 0.4, "b"), (0.4, 0.5, "b")])
    >>> MeanDurations.of([labels]).times(["b", "a"], seconds=0.8).ends.round(2).tolist()
    [0.2, 0.8]
    """

    means: Mapping[str, float]
    overall: float

    @classmethod
    def of(cls, sentences: Iterable[Intervals]) -> MeanDurations:
        """The means over sentences; empty intervals count.

        Raises:
            DataError: if there is no unit.
        """
        durations: dict[str, list[float]] = {}
        for labels in sentences:
            for unit, duration in zip(labels.units, labels.durations.tolist(), strict=True):
                durations.setdefault(unit, []).append(duration)
        if not durations:
            raise DataError("Mean durations need sentences with labels; there is no unit.")
        every = np.concatenate(list(durations.values()))
        return cls({unit: float(np.mean(values)) for unit, values in durations.items()}, float(every.mean()))

    def times(self, units: Sequence[str], seconds: float) -> UnitTimes:
        """The times of the units of a sentence if each had its mean duration, stretched to the sentence's duration."""
        return _stretched(np.array([self.means.get(unit, self.overall) for unit in units], np.float64), seconds)


def _stretched(durations: np.ndarray, seconds: float) -> UnitTimes:
    total = durations.sum()
    # units that were never heard have no durations to stretch
    shares = durations / total if total > 0 else np.full(len(durations), 1 / max(1, len(durations)))
    ends = seconds * shares.cumsum()
    return UnitTimes(ends - seconds * shares / 2, ends)
