"""The times of the units of a text: from alignments, and two baselines without attention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.data.speech.intervals import Intervals
from regard.errors import ConfigError, DataError, ShapeError
from regard.metrics.monotonic_path import monotonic_path
from regard.metrics.padding import flatten

LEAST_MASS = 1e-6
"""The least sum of the weights of a unit with a centre."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The times of the steps of a decoder with r frames per step.

    Frame i is centred on sample i·hop, so the r frames of step t are centred on

        t_mid = ((t + ½) r - ½) · hop / rate        and reach from (t r - ½) to ((t + 1) r - ½) · hop / rate.

    Args:
        sample_rate: samples per second.
        hop_length: samples between frames.
        reduction: r, frames per step.
        first: seconds to the middle of the first frame, above 0 for frames that are not centred
            (`FrontEnd.frame_time(0)`); it is added to all times.

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
        """The duration of a step."""
        return self.reduction * self.hop_length / self.sample_rate

    def middles(self, num_steps: int) -> NDArray[np.float64]:
        """(T,) seconds."""
        return self._time((np.arange(num_steps) + 0.5) * self.reduction)

    def edges(self, num_steps: int) -> NDArray[np.float64]:
        """(T + 1,) seconds: the beginnings of the steps, and the end of the last one. The first one begins at 0."""
        return np.maximum(self._time(np.arange(num_steps + 1) * self.reduction), 0.0)

    def _time(self, frames: NDArray[Any]) -> NDArray[np.float64]:
        return (frames - 0.5) * (self.hop_length / self.sample_rate) + self.first


@dataclass(frozen=True, eq=False, slots=True)
class UnitTimes:
    """The times of the units of a source, in seconds; NaN at padding.

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
        """The times of one sentence of a batch."""
        if self.centres.ndim < 2:
            raise IndexError("These are the times of one sentence; only those of a batch have an index.")
        return UnitTimes(self.centres[index], self.ends[index])

    @property
    def durations(self) -> NDArray[np.float64]:
        """(..., S) seconds; the first unit begins at 0."""
        return np.diff(self.ends, axis=-1, prepend=0.0)


def check_labelled(times: UnitTimes, labels: Intervals) -> None:
    """Checks that the times are those of one sentence with at least as many positions as labels.

    Raises:
        ShapeError: otherwise.
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

    A unit that the path skips has no duration. Weights need not be normalised.

    Args:
        alignment: (..., T, S) weights.
        steps: the times of the steps.
        source_length, target_length: as in `Padding`.

    >>> steps = StepTimes(sample_rate=1000, hop_length=10)
    >>> times = unit_times([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], steps)
    >>> times.centres.round(3).tolist(), times.ends.round(3).tolist()
    ([0.005, 0.02], [0.015, 0.025])
    """
    weights, real, real_steps, leading = flatten(alignment, source_length=source_length, target_length=target_length)
    count, num_steps, positions = weights.shape
    mass = weights.sum(axis=1)
    moment = np.einsum("nts,t->ns", weights, steps.middles(num_steps))
    centres = np.divide(moment, mass, out=np.full((count, positions), np.nan), where=mass >= LEAST_MASS)
    path = monotonic_path(weights, source_length=real.sum(1), target_length=real_steps.sum(1))
    on_path = np.greater_equal(path, 0)
    visits = np.zeros((count, positions), np.int64)
    row, step = np.nonzero(on_path)
    np.add.at(visits, (row, path[row, step]), 1)
    known = real & on_path.any(axis=1, keepdims=True)
    ends = np.where(known, steps.edges(num_steps)[visits.cumsum(axis=1)], np.nan)
    return UnitTimes(centres.reshape(*leading, positions), ends.reshape(*leading, positions))


def diagonal_times(num_units: int, seconds: float) -> UnitTimes:
    """The times of units of equal duration, in a sentence of this many seconds.

    >>> diagonal_times(2, 1.0).ends.tolist()
    [0.5, 1.0]
    """
    return _scaled(np.ones(num_units), seconds)


@dataclass(frozen=True, slots=True)
class MeanDurations:
    """The mean duration of each unit in labelled sentences, in seconds; `overall` for other units.

    >>> labels = Intervals.of([(0.0, 0.3, "a"), (0.3, 0.4, "b"), (0.4, 0.5, "b")])
    >>> MeanDurations.of([labels]).times(["b", "a"], seconds=0.8).ends.round(2).tolist()
    [0.2, 0.8]
    """

    means: Mapping[str, float]
    overall: float

    @classmethod
    def of(cls, sentences: Iterable[Intervals]) -> MeanDurations:
        """The means over sentences, including empty intervals.

        Raises:
            DataError: without units.
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
        """The times of a sentence's units with their mean durations, scaled to the duration of the sentence."""
        return _scaled(np.array([self.means.get(unit, self.overall) for unit in units], np.float64), seconds)


def _scaled(durations: np.ndarray, seconds: float) -> UnitTimes:
    total = durations.sum()
    # units that are never heard have no durations to scale
    shares = durations / total if total > 0 else np.full(len(durations), 1 / max(1, len(durations)))
    ends = seconds * shares.cumsum()
    return UnitTimes(ends - seconds * shares / 2, ends)
