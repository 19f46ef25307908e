"""When each unit of a text is spoken: by centres of weight and ends on the best path, and without any attention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.data.speech.intervals import Intervals
from regard.errors import ConfigError, DataError, ShapeError
from regard.metrics.monotonic_path import flattened, monotonic_path

LEAST_MASS = 1e-6
"""A unit whose weights sum to less has no centre."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The time of each step of a decoder that says r frames at a step.

    Frame i is centred on sample i·hop, after the middle of the first, so the r frames of step t are centred on

        t_mid = ((t + ½) r - ½) · hop / rate        and reach from (t r - ½) to ((t + 1) r - ½) · hop / rate.

    Args:
        sample_rate: samples per second.
        hop_length: samples from a frame to the next.
        reduction: r, frames per step.
        first: seconds to the middle of the first frame: above 0 for frames that are not centred
            (`FrontEnd.frame_time(0)`). All times are so much later.

    Raises:
        ConfigError: for a number below 1.

    >>> StepTimes(sample_rate=16000, hop_length=200, reduction=2).middles(3).tolist()
    [0.00625, 0.03125, 0.05625]
    """

    sample_rate: int
    hop_length: int
    reduction: int = 1
    first: float = 0.0

    def __post_init__(self) -> None:
        for name in ("sample_rate", "hop_length", "reduction"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}.", (name,))

    @property
    def seconds(self) -> float:
        """How long a step is."""
        return self.reduction * self.hop_length / self.sample_rate

    def middles(self, num_steps: int) -> NDArray[np.float64]:
        """(T,) seconds."""
        return self._time((np.arange(num_steps) + 0.5) * self.reduction)

    def edges(self, num_steps: int) -> NDArray[np.float64]:
        """(T + 1,) seconds: where each step begins, and where the last one ends. The first one begins at 0."""
        return np.maximum(self._time(np.arange(num_steps + 1) * self.reduction), 0.0)

    def _time(self, frames: NDArray[Any]) -> NDArray[np.float64]:
        return (frames - 0.5) * (self.hop_length / self.sample_rate) + self.first


@dataclass(frozen=True, eq=False, slots=True)
class UnitTimes:
    """When the units of a source are spoken, in seconds; NaN where that is not known, and at padding.

    Args:
        centres: (..., S), NaN for a unit without weight.
        ends: (..., S), the end of each unit and the beginning of the next; NaN for a source without a path.
    """

    centres: NDArray[np.float64]
    ends: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.centres.shape != self.ends.shape or not self.centres.ndim:
            raise ShapeError(f"centres and ends must both be (..., S); got {self.centres.shape} and {self.ends.shape}.")

    def __len__(self) -> int:
        return len(self.centres)

    def __getitem__(self, index: int) -> UnitTimes:
        """Those of one sentence of a batch."""
        if self.centres.ndim < 2:
            raise IndexError("These are the times of one sentence; only those of a batch have an index.")
        return UnitTimes(self.centres[index], self.ends[index])

    @property
    def durations(self) -> NDArray[np.float64]:
        """(..., S) seconds; the first unit begins at 0."""
        return np.diff(self.ends, axis=-1, prepend=0.0)


def check_labelled(times: UnitTimes, labels: Intervals) -> None:
    """Refuses times that cannot belong to a labelled sentence.

    Raises:
        ShapeError: for times of a batch, or of fewer positions than labels.
    """
    if times.ends.ndim != 1 or len(times) < len(labels):
        raise ShapeError(
            f"Expected the times of one sentence with at least the {len(labels)} units of its labels; got "
            f"{times.ends.shape}."
        )


def unit_times(
    alignment: Any,
    steps: StepTimes,
    *,
    source_length: ArrayLike | None = None,
    target_length: ArrayLike | None = None,
) -> UnitTimes:
    """The times of units according to an alignment of speech.

    With t_mid the middles of the steps and n_t the best monotonic path (`monotonic_path`),

        centre(n) = Σ_t a_t(n) t_mid / Σ_t a_t(n)        end(n) = the end of the last step with n_t ≤ n.

    So a unit that the path skips has no duration. Weights need not be normalised.

    Args:
        alignment: (..., T, S) weights.
        steps: which times the steps have.
        source_length, target_length: how many positions and steps are real, as in `monotonic_path`.

    >>> steps = StepTimes(sample_rate=1000, hop_length=10)
    >>> times = unit_times([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], steps)
    >>> times.centres.round(3).tolist(), times.ends.round(3).tolist()
    ([0.005, 0.02], [0.015, 0.025])
    """
    weights, sources, targets, leading = flattened(alignment, source_length, target_length)
    count, num_steps, positions = weights.shape
    mass = weights.sum(axis=1)
    moment = np.einsum("nts,t->ns", weights, steps.middles(num_steps))
    centres = np.divide(moment, mass, out=np.full((count, positions), np.nan), where=mass >= LEAST_MASS)
    path = monotonic_path(weights, source_length=sources, target_length=targets)
    on_path = np.greater_equal(path, 0)
    visits = np.zeros((count, positions), np.int64)
    row, step = np.nonzero(on_path)
    np.add.at(visits, (row, path[row, step]), 1)
    real = np.arange(positions) < sources[:, None]
    known = real & on_path.any(axis=1, keepdims=True)
    ends = np.where(known, steps.edges(num_steps)[visits.cumsum(axis=1)], np.nan)
    return UnitTimes(centres.reshape(*leading, positions), ends.reshape(*leading, positions))


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
