"""Errors of the times and durations of units, compared with labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.speech.intervals import Intervals
from regard.metrics.bootstrap import MetricTerms, ratio_terms
from regard.metrics.speech.timing import UnitTimes, check_labelled

MISSING_SECONDS = 0.5
"""The error of a unit without a time."""
LOOK_AHEAD_SECONDS = 0.1
"""The largest lead of attention that is no error: a decoder reads a unit before it speaks it."""
NEAR_SECONDS = 0.05
"""The largest distance of near boundaries from their labels."""


@dataclass(frozen=True, eq=False, slots=True)
class TimingDifferences:
    """Differences of the times of a sentence from its labels, for each unit that is heard; NaN without a time.

    Args:
        centres: (S,) centre minus the middle of the label, seconds.
        ends: (S,) end minus the end of the label, seconds.
    """

    centres: NDArray[np.float64]
    ends: NDArray[np.float64]


def timing_differences(times: UnitTimes, labels: Intervals) -> TimingDifferences:
    """The differences of times from labels; units with an empty interval are left out.

    Args:
        times: of one sentence; S positions or more, of which the first belong to the labels.
        labels: the times of the units in the recording.

    Raises:
        ShapeError: for times of a batch, or of fewer positions than labels.
    """
    check_labelled(times, labels)
    heard = labels.is_heard
    return TimingDifferences(
        (times.centres[: len(labels)] - labels.middles)[heard], (times.ends[: len(labels)] - labels.ends)[heard]
    )


@dataclass(frozen=True, slots=True)
class TimingErrors:
    """Errors of times over all units; NaN without units.

    Args:
        num_units: units with a label that is not empty.
        num_missing: those without weight.
        centre_ms: the mean distance of the centre from the middle of the label. For this and the next two, a negative
            lag of up to 100 ms is subtracted from all times.
        boundary_ms: the median distance of ends from those of the labels.
        near_share: the share of ends within 50 ms.
        lag_ms: the median of ends minus those of the labels; below 0 the alignment is early, above 0 it is late.
        lagless_ms: boundary_ms after subtracting all of the lag.
    """

    num_units: int
    num_missing: int
    centre_ms: float
    boundary_ms: float
    near_share: float
    lag_ms: float
    lagless_ms: float

    def __str__(self) -> str:
        missing = f", {self.num_missing:,} without weight" if self.num_missing else ""
        return (
            f"centres {self.centre_ms:.0f} ms off (mean), boundaries {self.boundary_ms:.0f} ms (median; "
            f"{100 * self.near_share:.0f}% within 50 ms); lag {self.lag_ms:+.0f} ms, without it {self.lagless_ms:.0f} "
            f"ms ({self.num_units:,} units{missing})"
        )

    def is_better_than(self, *others: TimingErrors) -> bool:
        """Whether centres and boundaries are nearer than those of all others, usually baselines."""
        return all(self.boundary_ms < other.boundary_ms and self.centre_ms < other.centre_ms for other in others)


def timing_errors(differences: Iterable[TimingDifferences]) -> TimingErrors:
    """The errors of sentences together. The error of a unit without a time is 500 ms.

    >>> of = TimingDifferences(np.array([0.0, -0.02, np.nan]), np.array([0.03, 0.03, 0.13]))
    >>> print(timing_errors([of]))
    centres 173 ms off (mean), boundaries 30 ms (median; 67% within 50 ms); lag +30 ms, without it 0 ms (3 units, 1 \
without weight)
    """
    sentences = list(differences)
    centres = np.concatenate([np.zeros(0), *(sentence.centres for sentence in sentences)])
    ends = np.concatenate([np.zeros(0), *(sentence.ends for sentence in sentences)])
    if not len(ends):
        return TimingErrors(0, 0, *(float("nan"),) * 5)
    lag, lead = _lag(ends)
    distances, lagless = (_distances(ends - shift) for shift in (lead, lag))
    return TimingErrors(
        num_units=len(ends),
        num_missing=int(np.isnan(centres).sum()),
        centre_ms=1000 * float(_distances(centres - lead).mean()),
        boundary_ms=1000 * float(np.median(distances)),
        near_share=float((distances <= NEAR_SECONDS).mean()),
        lag_ms=1000 * lag,
        lagless_ms=1000 * float(np.median(lagless)),
    )


def _lag(ends: NDArray[np.float64]) -> tuple[float, float]:
    """The median difference of ends, and the part of it that is a lead without being an error; seconds."""
    known = ends[~np.isnan(ends)]
    lag = float(np.median(known)) if len(known) else 0.0
    return lag, min(max(lag, -LOOK_AHEAD_SECONDS), 0.0)


def _distances(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isnan(differences), MISSING_SECONDS, np.abs(differences))


def timing_terms(sentences: Sequence[TimingDifferences | None]) -> dict[str, MetricTerms]:
    """What each sentence adds to the mean errors of all units, `centre_ms` and `near_share`.

    The lead that is subtracted is that of all sentences. A median, such as `boundary_ms`, has no such terms.
    """
    known = [each for each in sentences if each is not None]
    _, lead = _lag(np.concatenate([np.zeros(0), *(each.ends for each in known)]))
    terms = np.zeros((len(sentences), 3))
    for row, each in enumerate(sentences):
        if each is not None:
            near = _distances(each.ends - lead) <= NEAR_SECONDS
            terms[row] = 1000 * _distances(each.centres - lead).sum(), near.sum(), len(each.ends)
    return {
        "centre_ms": ratio_terms(terms[:, 0], terms[:, 2]),
        "near_share": ratio_terms(terms[:, 1], terms[:, 2], larger_is_better=True, is_share=True),
    }


@dataclass(frozen=True, eq=False, slots=True)
class DurationDifferences:
    """Durations of a spoken sentence compared with its recording, in seconds.

    Args:
        units: (S,) duration minus that of the label, for each unit that is heard; NaN without a path.
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
        times: of one sentence, usually of a free run; S positions or more, of which the first belong to the labels.
        labels: the times of the units in the recording.
        seconds, reference_seconds: the durations of the sentence and its recording.

    Raises:
        ShapeError: for times of a batch, or of fewer positions than labels.
    """
    check_labelled(times, labels)
    spoken = times.durations[: len(labels)] - labels.durations
    return DurationDifferences(spoken[labels.is_heard], seconds, reference_seconds)


@dataclass(frozen=True, slots=True)
class DurationErrors:
    """Errors of durations over all sentences; NaN without any.

    Args:
        ratio: the duration of all speech divided by that of the recordings: above 1 it is slow.
        unit_ms: the mean absolute difference of a unit's duration from its label's.
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
    """The errors of sentences together. The error of a unit in a sentence without a path is 500 ms.

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
