"""Forecasts with their times, and as tables with a row for each step, or for each weight of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.csv_fields import csv_line
from regard.data.series.series import Values
from regard.data.series.time_texts import NAIVE, Clock
from regard.data.series.windows import SeriesBatch
from regard.data.series.zones import Times
from regard.errors import ShapeError

DIGITS = 6
"""The significant digits of a printed forecast."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """The forecast of one window in the unit of the file, without padding.

    Args:
        series: the series' name, empty if its file has only one.
        target_names: F names.
        history_times: (S,) datetime64[us]: instants in UTC if the clock has a zone, else as in the file.
        history: (S, F), NaN where missing.
        times: (T,) as `history_times`; NaT if steps are rows, whose future times are unknown.
        values: (T, F), the forecast.
        truth: (T, F), NaN where missing or unknown.
        levels: Q levels of the quantiles.
        quantiles: (T, F, Q).
        alignment: (T, S) weights over the history, with rows that sum to 1 (0 for no attention), or None.
        clock: the calendar and the form of the times.
    """

    series: str
    target_names: tuple[str, ...]
    history_times: Times
    history: Values
    times: Times
    values: Values
    truth: Values
    levels: tuple[float, ...] = ()
    quantiles: Values | None = None
    alignment: Values | None = None
    clock: Clock = NAIVE

    @property
    def stamps(self) -> list[str]:
        """T texts: the times in the form of the file."""
        return self.clock.texts(self.times, all_times(self))

    @property
    def history_stamps(self) -> list[str]:
        """S texts of the times of the history."""
        return self.clock.texts(self.history_times, all_times(self))


def forecasts_of(
    batch: SeriesBatch,
    values: Any,
    *,
    levels: Sequence[float] = (),
    quantiles: Any = None,
    alignment: Any = None,
) -> list[Forecast]:
    """The forecasts of a batch's windows.

    Args:
        values: (B, T, F) forecasts, scaled as the batch; an array or a tensor.
        levels: Q levels, such as 0.1, 0.5, 0.9.
        quantiles: (B, T, F, Q), scaled as the batch.
        alignment: (B, T, S) weights, or (B, H, T, S), which are averaged over heads. The weights of a step are divided
            by their sum.

    Raises:
        ShapeError: for other shapes, and for weights on padding.

    >>> from regard.data.series import RepeatLast, SeriesTable, Step, SeriesWindows
    >>> table = SeriesTable.of({"a": [1.0, 2.0, 4.0]}, "2024-01-01", Step(months=1))
    >>> batch = SeriesWindows(table, history=2, horizon=2, in_future=True).batch([0])
    >>> weights = np.array([[[0.25, 0.75], [0.5, 0.5]]])
    >>> forecasts = forecasts_of(batch, RepeatLast().predict(batch), alignment=weights)
    >>> next(forecast_rows(forecasts))
    {'series': 'a', 'step': 1, 'time': '2024-04-01', 'value': 4.0}
    >>> next(alignment_rows(forecasts))
    {'series': 'a', 'step': 1, 'time': '2024-04-01', 'past_time': '2024-02-01', 'weight': 0.25}
    """
    count, steps, targets = batch.targets.shape
    values = as_values("values", values, (count, steps, targets))
    if (quantiles is None) != (not levels):
        raise ShapeError("levels and quantiles belong together: give both or neither.")
    if quantiles is not None:
        quantiles = batch.original(as_values("quantiles", quantiles, (count, steps, targets, len(levels))))
    if alignment is not None:
        alignment = _shares(batch, as_values("alignment", alignment, None))
    history = batch.original(np.where(batch.history_observed, batch.history, np.nan))
    truth = batch.original(np.where(batch.targets_observed, batch.targets, np.nan))
    values = batch.original(values)
    return [
        Forecast(
            series=batch.names[i],
            target_names=batch.target_names,
            history_times=batch.history_times[i, mask],
            history=history[i, mask],
            times=batch.future_times[i],
            values=values[i],
            truth=truth[i],
            levels=tuple(levels),
            quantiles=None if quantiles is None else quantiles[i],
            alignment=None if alignment is None else alignment[i][:, mask],
            clock=batch.clocks[i],
        )
        for i, mask in enumerate(batch.history_mask)
    ]


def forecast_rows(forecasts: Iterable[Forecast]) -> Iterator[dict[str, str | int | float]]:
    """A row for each step: series, step from 1, time, the targets, then the quantiles as "target_q0.1"."""
    for forecast in forecasts:
        for step, stamp in enumerate(forecast.stamps):
            row: dict[str, str | int | float] = {"series": forecast.series, "step": step + 1, "time": stamp}
            row |= {name: _number(forecast.values[step, f]) for f, name in enumerate(forecast.target_names)}
            if forecast.quantiles is not None:
                for f, name in enumerate(forecast.target_names):
                    for q, level in enumerate(forecast.levels):
                        row[f"{name}_q{level:g}"] = _number(forecast.quantiles[step, f, q])
            yield row


def alignment_rows(forecasts: Iterable[Forecast]) -> Iterator[dict[str, str | int | float]]:
    """A row for each weight: series, step from 1, time, past_time, weight; the weights of a step sum to 1.

    Raises:
        ShapeError: for a forecast without an alignment.
    """
    for forecast in forecasts:
        if forecast.alignment is None:
            raise ShapeError("A forecast has no alignment; pass the weights of the decoder to forecasts_of.")
        past = forecast.history_stamps
        for step, stamp in enumerate(forecast.stamps):
            row: dict[str, str | int | float] = {"series": forecast.series, "step": step + 1, "time": stamp}
            for at, weight in zip(past, forecast.alignment[step].tolist(), strict=True):
                yield row | {"past_time": at, "weight": weight}


def write_rows(rows: Iterable[dict[str, str | int | float]], path: Path | str) -> Path:
    """Writes rows as CSV with the header of the first row.

    Raises:
        ShapeError: if there is no row, or a row has other columns.
    """
    path, rows = Path(path), iter(rows)
    first = next(rows, None)
    if first is None:
        raise ShapeError("There is no row to write.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{csv_line(first)}\n")
        for row in chain([first], rows):
            if row.keys() != first.keys():
                raise ShapeError(f"A row has the columns {list(row)}; the first has {list(first)}.")
            file.write(f"{csv_line(row[name] for name in first)}\n")
    return path


def all_times(forecast: Forecast) -> Times:
    """(S + T,) the times of the history and of the forecast."""
    return np.concatenate([forecast.history_times, forecast.times])


def _number(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def as_values(name: str, values: Any, shape: tuple[int, ...] | None) -> Values:
    """An array, or a tensor of any device, as float64.

    Raises:
        ShapeError: for another shape than `shape`, (B, T, F) or (B, T, F, Q), unless that is None.
    """
    array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, dtype=np.float64)
    if shape is not None and array.shape != shape:
        letters = ["B", "T", "F", "Q"][: len(shape)]
        expected = ", ".join(f"{letter}={size}" for letter, size in zip(letters, shape, strict=True))
        raise ShapeError(f"{name} must be ({expected}) like the batch; got {array.shape}.")
    return array


def _shares(batch: SeriesBatch, weights: Values) -> Values:
    """(B, T, S) weights with the sum 1 over S."""
    weights = weights.mean(axis=1) if weights.ndim == 4 else weights
    shape = (*batch.targets.shape[:2], batch.history_mask.shape[1])
    if weights.shape != shape:
        raise ShapeError(f"alignment must be (B, T, S) or (B, H, T, S) with (B, T, S) = {shape}; got {weights.shape}.")
    on_padding = np.where(batch.history_mask[:, None], 0.0, weights)
    if np.abs(on_padding).max(initial=0.0) > 0:
        window = int(np.abs(on_padding).max(axis=(1, 2)).argmax())
        raise ShapeError(f"alignment: window {window} has weights on padding, where history_mask is False.")
    total = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
