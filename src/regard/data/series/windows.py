"""Windows of series: a history and the horizon to forecast, in batches with masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.data.series.calendar import time_features
from regard.data.series.scaling import StandardScale, WindowScale
from regard.data.series.series import SeriesTable, Values
from regard.data.series.split import Subset, TimeSplit
from regard.data.series.time_texts import Clock
from regard.data.series.zones import Times
from regard.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]
TENSORS = (
    "history",
    "history_observed",
    "history_mask",
    "history_known",
    "targets",
    "targets_observed",
    "future_known",
)


@dataclass(frozen=True, eq=False)
class SeriesBatch:
    """Windows as arrays: B windows, S steps of history, T of the horizon, F targets, K known inputs.

    Histories shorter than S are padded on the right, where `history_mask` is False.

    Args:
        series: (B,) the index of each window's series in its table.
        names: (B,) the names of the series.
        history: (B, S, F) scaled; a missing value is replaced by the last observed one, or by the window's centre (0)
            if there is none; 0 in padding.
        history_observed: (B, S, F) bool, False where missing or padded.
        history_mask: (B, S) bool, False in padding.
        history_known: (B, S, K) scaled known inputs, then the time features; 0 where missing.
        targets: (B, T, F) scaled truth, 0 where it is missing or in the future.
        targets_observed: (B, T, F) bool.
        future_known: (B, T, K).
        history_times, future_times: (B, S) and (B, T) datetime64[us]; NaT in padding, and for the future if steps are
            rows.
        clocks: (B,) the calendar of each window's series.
        centre, deviation: (B, F), of the scale of each window.
        series_mean, series_deviation: (B, F), of the scale of each series.
        target_names: F names.
    """

    series: Indices
    names: tuple[str, ...]
    history: Values
    history_observed: Mask
    history_mask: Mask
    history_known: Values
    targets: Values
    targets_observed: Mask
    future_known: Values
    history_times: Times
    future_times: Times
    centre: Values
    deviation: Values
    series_mean: Values
    series_deviation: Values
    target_names: tuple[str, ...]
    clocks: tuple[Clock, ...]

    def __len__(self) -> int:
        return len(self.series)

    def standardised(self, values: Values) -> Values:
        """Scaled values (B, T, F), or of shape (B, T, F, ·), on the scale of the series' training rows."""
        return values * _like(self.deviation, values) + _like(self.centre, values)

    def original(self, values: Values) -> Values:
        """Scaled values (B, T, F), or of shape (B, T, F, ·), in the unit of the file."""
        return self.standardised(values) * _like(self.series_deviation, values) + _like(self.series_mean, values)

    def tensors(self) -> dict[str, Tensor]:
        """The inputs of a network by name: numbers as float32, masks as bool."""
        import torch

        arrays = ((name, torch.from_numpy(getattr(self, name))) for name in TENSORS)
        return {name: array if array.dtype == torch.bool else array.float() for name, array in arrays}


class SeriesWindows:
    """The windows of a table, or of a part of it, at every `stride`-th step at which a forecast may begin.

    Windows without an observed value in the history are left out, and those without one in the horizon unless
    `in_future`. Arrays are made for each batch on demand.

    Args:
        history: S, the steps before the forecast.
        horizon: T, the steps of the forecast.
        stride: the steps between the beginnings of two windows of a series.
        split, part: the part that contains the whole horizon; all rows with observed targets if None.
        shortest_history: the fewest steps of history at the beginning of a series; `history` if None.
        scale: the scale of the series; none if None.
        window_scale: a further scale of each window.
        features: time features beside the known inputs; those of the table's step if None.
        in_future: whether there is one window for each series, whose horizon follows the last observed row.
        hold_back: with `in_future`, the rows by which each horizon begins before the end of its series.

    Raises:
        DataError: for sizes below 1, or if no window fits.

    >>> from regard.data.series import SeriesTable, Step
    >>> table = SeriesTable.of({"a": [0.0, 1.0, np.nan, 3.0, 4.0]}, "2024-01-01", Step(months=1))
    >>> windows = SeriesWindows(table, history=3, horizon=1)
    >>> batch = windows.batch([0, 1])
    >>> batch.history[..., 0].tolist(), batch.targets[..., 0].tolist()
    ([[0.0, 1.0, 1.0], [1.0, 1.0, 3.0]], [[3.0], [4.0]])
    >>> batch.history_observed[0, :, 0].tolist()
    [True, True, False]
    """

    def __init__(
        self,
        table: SeriesTable,
        *,
        history: int,
        horizon: int,
        stride: int = 1,
        split: TimeSplit | None = None,
        part: Subset = "train",
        shortest_history: int | None = None,
        scale: StandardScale | None = None,
        window_scale: WindowScale | None = None,
        features: Sequence[str] | None = None,
        in_future: bool = False,
        hold_back: int = 0,
    ) -> None:
        shortest = history if shortest_history is None else shortest_history
        sizes = {"history": history, "horizon": horizon, "stride": stride, "shortest_history": shortest}
        for name, size in sizes.items():
            if size < 1:
                raise DataError(f"{name} must be at least 1; got {size}.")
        if shortest > history:
            raise DataError(f"shortest_history={shortest} is more than history={history}.")
        self.table, self.history, self.horizon = table, history, horizon
        self.features = table.step.features if features is None else tuple(features)
        self.scale = None if scale is None else scale.of(table.names)
        self.window_scale = window_scale
        parts = [self._series(index) for index in range(len(table.series))]
        self._targets, self._known = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        self._times: Times = np.concatenate([part[2] for part in parts])
        self._offsets: Indices = np.cumsum([0, *(len(part[2]) for part in parts)])[:-1]
        places = []
        for index, series in enumerate(table.series):
            if in_future:
                start = series.end - hold_back
                starts = np.array([start] * (start >= shortest), np.intp)
            else:
                rows = range(series.end) if split is None else split.rows(index, part)
                starts = np.arange(max(rows.start, shortest), rows.stop - horizon + 1, stride)
            seen = np.concatenate([[0], series.observed.any(axis=1).cumsum()])
            has_history = seen[starts] > seen[np.maximum(starts - history, 0)]
            has_truth = in_future | (seen[np.minimum(starts + horizon, len(seen) - 1)] > seen[starts])
            starts = starts[has_history & has_truth]
            places.append(np.stack([np.full(len(starts), index), starts], axis=1))
        self.places: Indices = np.concatenate(places)
        """(windows, 2): the index of each window's series and the row at which its forecast begins."""
        if not len(self.places):
            raise DataError(
                f"No window of {history} steps of history{f' (at least {shortest})' * (shortest < history)} and "
                f"{horizon} of the horizon fits into {'the table' if split is None else f'the {part} part'}: {table}."
            )

    def __len__(self) -> int:
        return len(self.places)

    @property
    def num_known(self) -> int:
        """K: the number of known inputs and of sines and cosines of the time features."""
        return self._known.shape[1]

    def batches(self, size: int = 256) -> Iterator[SeriesBatch]:
        """All windows in order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.batch(range(start, min(start + size, len(self))))

    def batch(self, indices: Sequence[int] | NDArray[np.integer]) -> SeriesBatch:
        """The windows with these indices."""
        series, starts = self.places[np.asarray(indices, np.intp)].T
        length = np.minimum(starts, self.history)
        back = np.arange(self.history)
        mask = back < length[:, None]
        rows = (starts - length)[:, None] + back
        ahead = starts[:, None] + np.arange(self.horizon)
        rows, ahead = (at + self._offsets[series, None] for at in (rows, ahead))
        values = np.where(mask[..., None], self._targets[rows], np.nan)
        truth = self._targets[ahead]
        shape = (len(series), values.shape[2])
        centre, deviation = np.zeros(shape), np.ones(shape)
        if self.window_scale is not None:
            centre, deviation = self.window_scale.of(values)
        values, truth = ((part - centre[:, None]) / deviation[:, None] for part in (values, truth))
        return SeriesBatch(
            series=series,
            names=tuple(self.table.series[i].name for i in series),
            history=np.where(mask[..., None], carried_forward(values), 0.0),
            history_observed=~np.isnan(values),
            history_mask=mask,
            history_known=np.where(mask[..., None], np.nan_to_num(self._known[rows], nan=0.0), 0.0),
            targets=np.nan_to_num(truth, nan=0.0),
            targets_observed=~np.isnan(truth),
            future_known=np.nan_to_num(self._known[ahead], nan=0.0),
            history_times=np.where(mask, self._times[rows], np.datetime64("NaT")),
            future_times=self._times[ahead],
            centre=centre,
            deviation=deviation,
            series_mean=np.zeros(shape) if self.scale is None else self.scale.mean[series],
            series_deviation=np.ones(shape) if self.scale is None else self.scale.deviation[series],
            target_names=self.table.target_names,
            clocks=tuple(self.table.series[i].clock for i in series),
        )

    def _series(self, index: int) -> tuple[Values, Values, Times]:
        """Scaled targets, known inputs with time features, and times of a series, with rows of the future."""
        series, step = self.table.series[index], self.table.step
        more = max(0, series.end + self.horizon - len(series)) + self.history
        times = np.concatenate([series.times, step.after(series.times, more, series.clock)])
        targets, known = series.targets, series.known
        if self.scale is not None:
            targets = (targets - self.scale.mean[index]) / self.scale.deviation[index]
            known = (known - self.scale.known_mean[index]) / self.scale.known_deviation[index]
        known = np.concatenate([known, np.full((more, known.shape[1]), np.nan)])
        known = np.concatenate([known, time_features(series.clock.wall(times), self.features)], axis=1)
        return np.concatenate([targets, np.full((more, targets.shape[1]), np.nan)]), known, times


def carried_forward(values: Values) -> Values:
    """Values (B, S, F) with each NaN replaced by the last number before it in its window, or 0.

    >>> carried_forward(np.array([[[np.nan], [2.0], [np.nan]]])).ravel()
    array([0., 2., 2.])
    """
    at = np.where(np.isnan(values), -1, np.arange(values.shape[1])[:, None])
    last = np.maximum.accumulate(at, axis=1)
    taken = np.take_along_axis(values, np.maximum(last, 0), axis=1)
    return np.where(last < 0, 0.0, taken)


def _like(of_window: Values, values: Values) -> Values:
    """(B, F) with new axes for the steps and for the axes after the targets."""
    return of_window.reshape(len(of_window), 1, -1, *(1,) * (values.ndim - 3))
