"""Reports of forecasts: rolling forecasts as a table, errors by step, and the worst windows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.data.series import RepeatLast, SeriesBatch, SeriesWindows, forecasts_of
from regard.runs.report import MOST_DRAWN, ReportFacts
from regard.tasks.forecasting.evaluation import ForecastEvaluation
from regard.viz import plot_forecast
from regard.viz.report import Curve, Section, Table

if TYPE_CHECKING:
    from regard.tasks.forecasting.model import Forecaster

MOST_WINDOWS = 20
"""The most windows in the table of the worst ones."""


def forecast_facts(model: Forecaster, evaluation: ForecastEvaluation) -> ReportFacts:
    """As `Forecaster.report_facts`."""
    windows = evaluation.windows
    assert windows is not None
    squared, repeated, counts = zip(*(_errors(model, batch) for batch in _batches(model, windows)), strict=True)
    # (windows, T): sums over the observed targets
    model_sums, repeated_sums, numbers = (np.concatenate(each) for each in (squared, repeated, counts))
    with np.errstate(invalid="ignore", divide="ignore"):
        by_step = {
            name: [(step, float(value)) for step, value in enumerate(sums.sum(0) / numbers.sum(0), start=1)]
            for name, sums in (("model", model_sums), ("last value repeated", repeated_sums))
        }
        errors = model_sums.sum(1) / numbers.sum(1)
    order = _apart(windows, np.argsort(-np.nan_to_num(errors, nan=-1.0), kind="stable"))[:MOST_WINDOWS]
    rows = [(_origin(windows, i), float(errors[i]), int(numbers[i].sum())) for i in order]
    sections: list[Section] = [
        Curve(
            "Error by step", "step ahead", "mean squared error, standardised", by_step, dots=len(by_step["model"]) < 30
        ),
        *_by_target(evaluation),
        Table(
            "The worst windows",
            ["begins", "mean squared error, standardised", "values"],
            rows,
            note="Of windows that overlap only the worst is listed.",
        ),
        *_coverage(evaluation),
    ]
    drawn = [i for i in order[:MOST_DRAWN] if np.isfinite(errors[i])]
    pages: dict[str, Any] = {}
    for i, forecast in zip(drawn, model.window_forecasts(windows, drawn), strict=True):
        title = f"{_origin(windows, i)} ({errors[i]:.4g})"
        pages[title] = partial(plot_forecast, forecast, title=title)
    return ReportFacts(pages=pages, sections=sections, rows=partial(rolling_rows, model, windows))


def rolling_rows(model: Forecaster, windows: SeriesWindows) -> Iterator[dict[str, Any]]:
    """A row for each step and target of the forecast of every origin."""
    for batch in _batches(model, windows):
        values, quantiles, _ = model.forecast_batch(batch)
        for forecast in forecasts_of(batch, values, levels=model.levels, quantiles=quantiles):
            origin = forecast.history_stamps[-1] if len(forecast.history_times) else None
            for step, stamp in enumerate(forecast.stamps):
                for column, target in enumerate(forecast.target_names):
                    observed, value = float(forecast.truth[step, column]), float(forecast.values[step, column])
                    row: dict[str, Any] = {"series": forecast.series, "origin": origin, "step": step + 1, "time": stamp}
                    row |= {
                        "target": target,
                        "observed": None if np.isnan(observed) else observed,
                        "forecast": value,
                        "error": None if np.isnan(observed) else value - observed,
                    }
                    if forecast.quantiles is not None:
                        for level, quantile in zip(forecast.levels, forecast.quantiles[step, column], strict=True):
                            row[f"q{level:g}"] = float(quantile)
                    yield row


def _batches(model: Forecaster, windows: SeriesWindows) -> Iterator[SeriesBatch]:
    return windows.batches(model.config.decoding.batch_windows)


def _errors(model: Forecaster, batch: SeriesBatch) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(B, T) sums of squared errors of the model and of the last value repeated, and the observed values."""
    observed, truth = batch.targets_observed, batch.standardised(batch.targets)
    squared = [
        np.where(observed, (batch.standardised(values) - truth) ** 2, 0.0).sum(2)
        for values in (model.forecast_batch(batch)[0], np.asarray(RepeatLast().predict(batch)))
    ]
    return squared[0], squared[1], observed.sum(2)


def _origin(windows: SeriesWindows, index: int) -> str:
    """The series and the first time of the forecast of a window."""
    series, start = windows.places[index]
    return " ".join(filter(None, (windows.table.series[series].name, windows.table.series[series].stamp(int(start)))))


def _apart(windows: SeriesWindows, order: NDArray[np.int64]) -> list[int]:
    """The windows in this order, without those that overlap an earlier one of the same series."""
    kept: list[int] = []
    taken: dict[int, NDArray[np.bool_]] = {}
    for index in order.tolist():
        series, start = (int(number) for number in windows.places[index])
        rows = taken.setdefault(series, np.zeros(len(windows.table.series[series]) + windows.horizon, dtype=bool))
        rows_of_window = slice(start, start + windows.horizon)
        if not rows[rows_of_window].any():
            rows[rows_of_window] = True
            kept.append(index)
    return kept


def _by_target(evaluation: ForecastEvaluation) -> Iterator[Section]:
    """The errors of each of several targets, standardised and in its unit."""
    if len(evaluation.by_target) > 1:
        rows = [
            (
                name,
                each.mean_squared_error,
                each.mean_absolute_error,
                each.original_mean_absolute_error,
                each.num_values,
            )
            for name, each in evaluation.by_target.items()
            if each.num_values
        ]
        columns = ["target", "mean squared error", "mean absolute error", "mean absolute error in its unit", "values"]
        note = "The first two errors are standardised: divided by the deviation of the training rows."
        yield Table("Errors of each target", columns, rows, note=note)


def _coverage(evaluation: ForecastEvaluation) -> Iterator[Section]:
    """The reliability of quantiles."""
    coverage = evaluation.errors.coverage
    if coverage:
        yield Curve(
            "Reliability of quantiles",
            "level",
            "share of values at or below",
            {"quantiles": sorted(coverage.items())},
            diagonal=True,
            dots=True,
            note=f"Calibration error {evaluation.calibration_error:.4f}, the mean distance from the dashed line.",
        )
