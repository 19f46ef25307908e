"""Baselines, errors of forecasts, and tables of forecasts and of their weights."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.series import (
    LinearForecast,
    RepeatLast,
    Seasonal,
    Series,
    SeriesTable,
    SeriesWindows,
    StandardScale,
    Step,
    WindowScale,
    alignment_rows,
    forecast_rows,
    forecasts_of,
    write_rows,
)
from regard.data.series.calendar import HOUR
from regard.errors import DataError, ShapeError
from regard.metrics import ForecastTally, pinball


def table_of(*targets: np.ndarray) -> SeriesTable:
    """Hourly series "s0", "s1", … with these targets (N, F)."""
    series = tuple(
        Series(f"s{i}", np.datetime64("2024-01-01", "us") + np.arange(len(x)) * np.timedelta64(1, "h"), x, x[:, :0])
        for i, x in enumerate(targets)
    )
    return SeriesTable(series, tuple(f"f{i}" for i in range(targets[0].shape[1])), (), Step(microseconds=HOUR))


def waves(count: int, *, missing: float = 0.0, seed: int = 0) -> np.ndarray:
    """Two noisy days-and-nights (N, 2), with a share of missing values."""
    rng = np.random.default_rng(seed)
    phase = 2 * np.pi * np.arange(count) / 24
    values = np.stack([np.sin(phase), 3 * np.cos(phase) + 10], axis=1) + 0.05 * rng.normal(size=(count, 2))
    values[rng.random(values.shape) < missing] = np.nan
    return values


def all_of(windows: SeriesWindows):
    return windows.batch(range(len(windows)))


# Baselines


def test_repeating_takes_the_last_observed_value() -> None:
    values = np.arange(8.0)[:, None]
    values[3] = np.nan
    windows = SeriesWindows(table_of(values), history=4, horizon=3)
    forecast = RepeatLast.fit(windows).predict(windows.batch([0, 1]))
    assert forecast[..., 0].tolist() == [[2, 2, 2], [4, 4, 4]]


def test_a_season_is_repeated_and_looks_further_back_where_it_is_missing() -> None:
    values = np.array([1.0, 2, 3, 11, 12, np.nan, 7, 7, 7, 7, 7])[:, None]
    batch = SeriesWindows(table_of(values), history=6, horizon=5).batch([0])
    assert Seasonal(3).predict(batch)[0, :, 0].tolist() == [11, 12, 3, 11, 12]
    values[2] = np.nan
    batch = SeriesWindows(table_of(values), history=6, horizon=5).batch([0])
    assert Seasonal(3).predict(batch)[0, :, 0].tolist() == [11, 12, 12, 11, 12]  # never observed: the last value


def test_a_period_that_does_not_divide_the_history_counts_from_its_end() -> None:
    batch = SeriesWindows(table_of(np.arange(10.0)[:, None]), history=5, horizon=3).batch([0])
    assert Seasonal(2).predict(batch)[0, :, 0].tolist() == [3, 4, 3]


def test_the_season_follows_from_the_step_and_must_fit() -> None:
    table = table_of(waves(100))
    assert Seasonal.fit(SeriesWindows(table, history=48, horizon=4)).period == 24
    with pytest.raises(DataError, match="A season of 24 steps does not fit into a history of 23"):
        Seasonal.fit(SeriesWindows(table, history=23, horizon=4))


def test_the_regression_is_that_of_least_squares_with_the_penalty() -> None:
    windows = SeriesWindows(table_of(waves(80), waves(60, seed=1)), history=6, horizon=3)
    fitted = LinearForecast.fit(windows, past=5, penalty=0.7)
    batch = all_of(windows)
    x = np.concatenate([batch.history[:, 1:, 1], np.ones((len(batch), 1))], axis=1)
    x = np.concatenate([x, np.sqrt(0.7) * np.eye(5, 6)])  # the penalty as further rows
    y = np.concatenate([batch.targets[:, :, 1], np.zeros((5, 3))])
    np.testing.assert_allclose(fitted.weights[1], np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-7)
    np.testing.assert_allclose(fitted.predict(batch)[..., 1], x[:-5] @ fitted.weights[1], atol=1e-12)
    assert fitted.past == 5


def test_the_regression_is_fitted_to_what_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = SeriesWindows(table_of(waves(90, missing=0.2)), history=6, horizon=4)
    fitted = LinearForecast.fit(windows, penalty=0.5)
    batch = all_of(windows)
    rows = batch.targets_observed[:, 2, 0]
    x = np.concatenate([batch.history[:, :, 0], np.ones((len(batch), 1))], axis=1)[rows]
    first = batch.history_observed[rows, :, 0].argmax(axis=1)  # the past continues with its first observed value
    for row, at in enumerate(first):
        x[row, :at] = x[row, at]
    x = np.concatenate([x, np.sqrt(0.5) * np.eye(6, 7)])
    y = np.concatenate([batch.targets[rows, 2, 0], np.zeros(6)])
    np.testing.assert_allclose(fitted.weights[0, :, 2], np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-7)
    monkeypatch.setattr("regard.data.series.baselines.FIT_BYTES", 1)  # one step at a time
    np.testing.assert_allclose(LinearForecast.fit(windows, penalty=0.5).weights, fitted.weights, atol=1e-12)


def test_a_linear_law_is_found_and_forecast_in_any_scale() -> None:
    values = np.cumprod(np.full((60, 1), 1.05), axis=0)
    table = table_of(values)
    for window_scale in (None, WindowScale("last"), WindowScale("mean", divide=True)):
        windows = SeriesWindows(table, history=4, horizon=3, scale=StandardScale.fit(table), window_scale=window_scale)
        batch = all_of(windows)
        forecast = batch.original(LinearForecast.fit(windows, penalty=1e-9).predict(batch))
        np.testing.assert_allclose(forecast, batch.original(batch.targets), rtol=2e-3)


def test_short_histories_are_continued_into_the_past() -> None:
    windows = SeriesWindows(table_of(waves(60)), history=30, horizon=4, shortest_history=3)
    batch = all_of(windows)
    for baseline in (RepeatLast.fit(windows), Seasonal.fit(windows), LinearForecast.fit(windows)):
        together = baseline.predict(batch)
        assert together.shape == batch.targets.shape
        assert np.isfinite(together).all()
        np.testing.assert_allclose(baseline.predict(windows.batch([2])), together[2:3], atol=1e-10)


def test_the_regression_refuses_what_does_not_fit() -> None:
    windows = SeriesWindows(table_of(waves(60)), history=6, horizon=4)
    with pytest.raises(DataError, match="past must be between 1 and the history of 6"):
        LinearForecast.fit(windows, past=7)
    with pytest.raises(DataError, match="penalty above 0"):
        LinearForecast.fit(windows, penalty=0.0)
    other = SeriesWindows(table_of(waves(60)), history=6, horizon=5).batch([0])
    with pytest.raises(DataError, match=r"forecasts T=4 steps of F=2 targets; the batch has T=5, F=2"):
        LinearForecast.fit(windows).predict(other)


# Errors


def test_errors_are_means_over_observed_truth_on_both_scales() -> None:
    values = np.concatenate([waves(40, missing=0.3), waves(40, missing=0.3, seed=1)], axis=1) * 5
    table = table_of(values, values[:25] + 3)
    scale = StandardScale.fit(table)
    windows = SeriesWindows(table, history=8, horizon=3, scale=scale, window_scale=WindowScale("mean", divide=True))
    tally, rng = ForecastTally(), np.random.default_rng(0)
    truths, forecasts, names = [], [], []
    for batch in windows.batches(7):
        guess = rng.normal(size=batch.targets.shape)
        tally.add(batch, torch.from_numpy(guess))
        truths.append(np.where(batch.targets_observed, batch.original(batch.targets), np.nan))
        forecasts.append(batch.original(guess))
        names += batch.names
    apart = np.concatenate(forecasts) - np.concatenate(truths)
    deviation = scale.deviation[[table.names.index(name) for name in names]][:, None]
    overall = tally.overall()
    assert overall.num_values == (~np.isnan(apart)).sum()
    np.testing.assert_allclose(overall.original_mean_squared_error, np.nanmean(apart**2))
    np.testing.assert_allclose(overall.original_mean_absolute_error, np.nanmean(abs(apart)))
    np.testing.assert_allclose(overall.mean_squared_error, np.nanmean((apart / deviation) ** 2))
    np.testing.assert_allclose(overall.mean_absolute_error, np.nanmean(abs(apart / deviation)))
    of_second = apart[np.array(names) == "s1"]
    np.testing.assert_allclose(tally.by_series()["s1"].original_mean_absolute_error, np.nanmean(abs(of_second)))
    np.testing.assert_allclose(tally.by_target()["f2"].original_mean_squared_error, np.nanmean(apart[..., 2] ** 2))
    assert np.isnan(overall.pinball_loss)


def test_true_quantiles_cover_their_level_and_have_the_least_pinball_loss() -> None:
    table = table_of(np.random.default_rng(0).normal(size=(4000, 1)))
    windows = SeriesWindows(table, history=1, horizon=1)
    batch, levels = all_of(windows), (0.1, 0.5, 0.9)
    true = np.array([-1.2816, 0.0, 1.2816])
    losses = {}
    for shift in (-0.3, 0.0, 0.3):
        tally = ForecastTally(levels)
        tally.add(batch, np.zeros_like(batch.targets), np.broadcast_to(true + shift, (len(batch), 1, 1, 3)))
        losses[shift] = tally.overall().pinball_loss
        if shift == 0:
            assert all(abs(tally.overall().coverage[level] - level) < 0.02 for level in levels)
            errors = tally.overall()
            np.testing.assert_allclose(errors.pinball_losses[0.5], errors.mean_absolute_error / 2)
    assert losses[0.0] == min(losses.values())


def test_the_pinball_loss_weighs_both_sides() -> None:
    np.testing.assert_allclose(pinball(np.array(3.0), np.array([1.0, 5.0]), (0.9, 0.9)), [1.8, 0.2])


def test_a_tally_refuses_wrong_shapes() -> None:
    batch = SeriesWindows(table_of(waves(20)), history=4, horizon=2).batch([0])
    with pytest.raises(ShapeError, match=r"values must be \(B=1, T=2, F=2\) like the batch; got \(1, 2, 1\)"):
        ForecastTally().add(batch, batch.targets[..., :1])
    with pytest.raises(ShapeError, match=r"Give quantiles if there are levels, and only then; the levels are \[0.5\]"):
        ForecastTally((0.5,)).add(batch, batch.targets)
    with pytest.raises(ShapeError, match="No forecast was added"):
        ForecastTally().overall()


# Tables


def weights_of(batch, heads: int = 0, seed: int = 0) -> np.ndarray:
    """Softmax weights (B, T, S), or (B, H, T, S), 0 on padding."""
    shape = (len(batch), *(heads,) * bool(heads), batch.targets.shape[1], batch.history_mask.shape[1])
    mask = batch.history_mask[:, None, None] if heads else batch.history_mask[:, None]
    weights = np.exp(np.random.default_rng(seed).normal(size=shape)) * mask
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_predictions_are_a_row_for_each_step_in_the_unit_of_the_file(tmp_path: Path) -> None:
    table = table_of(waves(30), 100 + waves(40))
    windows = SeriesWindows(table, history=5, horizon=3, scale=StandardScale.fit(table), in_future=True)
    batch = all_of(windows)
    quantiles = batch.targets[..., None] + np.array([-1.0, 1.0])
    forecasts = forecasts_of(batch, batch.targets + 0.5, levels=(0.1, 0.9), quantiles=quantiles)
    rows = read(write_rows(forecast_rows(forecasts), tmp_path / "new" / "forecast.csv"))
    assert list(rows[0]) == ["series", "step", "time", "f0", "f1", "f0_q0.1", "f0_q0.9", "f1_q0.1", "f1_q0.9"]
    assert [(row["series"], row["step"]) for row in rows] == [(s, str(t)) for s in ("s0", "s1") for t in (1, 2, 3)]
    assert rows[0]["time"] == "2024-01-02 06:00:00"
    deviation, mean = windows.scale.deviation[1, 0], windows.scale.mean[1, 0]
    np.testing.assert_allclose(float(rows[3]["f0"]), 0.5 * deviation + mean, rtol=1e-5)
    np.testing.assert_allclose(float(rows[3]["f0_q0.1"]), mean - deviation, rtol=1e-5)


def test_alignments_are_rows_that_sum_to_one_over_the_real_past_of_each_series(tmp_path: Path) -> None:
    table = table_of(waves(6), waves(3), waves(9))
    windows = SeriesWindows(table, history=7, horizon=2, shortest_history=2, in_future=True)
    batch = all_of(windows)
    weights = weights_of(batch, heads=3)
    forecasts = forecasts_of(batch, batch.targets, alignment=torch.from_numpy(weights))
    rows = read(write_rows(alignment_rows(forecasts), tmp_path / "alignment.csv"))
    assert list(rows[0]) == ["series", "step", "time", "past_time", "weight"]
    sums: dict[tuple[str, str], float] = {}
    for row in rows:
        sums[row["series"], row["step"]] = sums.get((row["series"], row["step"]), 0.0) + float(row["weight"])
        assert row["past_time"] < row["time"]
    assert len(sums) == 6
    np.testing.assert_allclose(list(sums.values()), 1, rtol=1e-12)
    of_second = [row for row in rows if row["series"] == "s1" and row["step"] == "2"]
    assert [row["past_time"][11:13] for row in of_second] == ["00", "01", "02"]
    expected = weights[1, :, 1, :3].astype(float).mean(0)
    np.testing.assert_allclose([float(row["weight"]) for row in of_second], expected / expected.sum(), rtol=1e-12)


def test_weights_that_do_not_sum_to_one_become_shares_and_nothing_stays_nothing() -> None:
    batch = SeriesWindows(table_of(waves(20)), history=4, horizon=2).batch([0])
    weights = np.array([[[1.0, 3.0, 0.0, 0.0], [0.0] * 4]])
    (forecast,) = forecasts_of(batch, batch.targets, alignment=weights)
    assert forecast.alignment is not None
    assert forecast.alignment.tolist() == [[0.25, 0.75, 0, 0], [0] * 4]


def test_missing_values_stay_missing_in_a_forecast() -> None:
    windows = SeriesWindows(table_of(waves(40, missing=0.4)), history=9, horizon=4)
    batch = windows.batch([0])
    (forecast,) = forecasts_of(batch, batch.targets)
    np.testing.assert_array_equal(np.isnan(forecast.history), ~batch.history_observed[0])
    np.testing.assert_array_equal(np.isnan(forecast.truth), ~batch.targets_observed[0])


def test_forecasts_and_tables_refuse_what_does_not_fit(tmp_path: Path) -> None:
    windows = SeriesWindows(table_of(waves(20)), history=6, horizon=2, shortest_history=2)
    batch = windows.batch([0])
    with pytest.raises(ShapeError, match=r"values must be \(B=1, T=2, F=2\)"):
        forecasts_of(batch, batch.targets[0])
    with pytest.raises(ShapeError, match="levels and quantiles belong together"):
        forecasts_of(batch, batch.targets, levels=(0.5,))
    with pytest.raises(ShapeError, match=r"alignment must be \(B, T, S\)"):
        forecasts_of(batch, batch.targets, alignment=np.ones((1, 2, 5)))
    with pytest.raises(ShapeError, match="window 0 has weights on padding"):
        forecasts_of(batch, batch.targets, alignment=np.ones((1, 2, 6)))
    with pytest.raises(ShapeError, match="A forecast has no alignment"):
        list(alignment_rows(forecasts_of(batch, batch.targets)))
    with pytest.raises(ShapeError, match="no row to write"):
        write_rows([], tmp_path / "a.csv")
    with pytest.raises(ShapeError, match=r"A row has the columns \['b'\]; the first has \['a'\]"):
        write_rows([{"a": 1}, {"b": 1}], tmp_path / "a.csv")
