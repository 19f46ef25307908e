"""How long units and sentences are spoken, beside a recording."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.intervals import Intervals
from regard.health.timing import UnitTimes, check_labelled
from regard.health.timing_errors import MISSING_SECONDS


@dataclass(frozen=True, eq=False, slots=True)
class DurationDifferences:
    """Durations of a spoken sentence beside those of its recording, in seconds.

    Args:
        units: (S,) duration minus that of the label, for each unit that is heard; NaN if there is no path.
        seconds, reference_seconds: of the whole sentence.
    """

    units: NDArray[np.float64]
    seconds: float
    reference_seconds: float


def duration_differences(
    times: UnitTimes, labels: Intervals, *, seconds: float, reference_seconds: float
) -> DurationDifferences:
    """The differences of durations from those of labels; units with an empty interval are left out.

    Args:
        times: of one sentence, usually spoken freely; S positions, or more, of which the first belong to the labels.
        labels: when the units were spoken in the recording.
        seconds, reference_seconds: how long the sentence and its recording are.

    Raises:
        ShapeError: for times of a batch, or of fewer positions than labels.
    """
    check_labelled(times, labels)
    spoken = times.durations[: len(labels)] - labels.durations
    return DurationDifferences(spoken[labels.is_heard], seconds, reference_seconds)


@dataclass(frozen=True, slots=True)
class DurationErrors:
    """Durations of sentences together; NaN if there are none.

    Args:
        ratio: the duration of all speech divided by that of the recordings: above 1 it is slow.
        unit_ms: the mean difference of a unit's duration from its label's, without sign.
        num_units: units that are heard.
    """

    ratio: float
    unit_ms: float
    num_units: int

    def __str__(self) -> str:
        return (
            f"durations {self.ratio:.2f} of the recordings', units {self.unit_ms:.0f} ms off ({self.num_units:,} units)"
        )


def duration_errors(differences: Iterable[DurationDifferences]) -> DurationErrors:
    """The errors of sentences together. The units of a sentence without a path count as 500 ms.

    >>> print(duration_errors([DurationDifferences(np.array([0.03, -0.01]), 1.1, 1.0)]))
    durations 1.10 of the recordings', units 20 ms off (2 units)
    """
    sentences = list(differences)
    units = np.concatenate([np.zeros(0), *(sentence.units for sentence in sentences)])
    reference = sum(sentence.reference_seconds for sentence in sentences)
    missing = np.where(np.isnan(units), MISSING_SECONDS, np.abs(units))
    return DurationErrors(
        ratio=sum(sentence.seconds for sentence in sentences) / reference if reference else float("nan"),
        unit_ms=1000 * float(missing.mean()) if len(units) else float("nan"),
        num_units=len(units),
    )
