"""Forecasting: laws of tasks, missing values, several series, known futures, quantiles, rolling evaluation."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import Configuration, from_preset
from regard.data.series import LinearForecast, RepeatLast, SeriesTable, SeriesWindows, StandardScale, Step, WindowScale
from regard.errors import ConfigError, DataError, UnsupportedError
from regard.tasks import TASKS, load, train
from regard.tasks.forecasting.defaults import resolve
from regard.tasks.forecasting.model import LARGEST, Forecaster, SeriesFile
from regard.tasks.forecasting.reading import SeriesData, read_material
from regard.tasks.forecasting.trainee import ForecastTrainee, training_batch
from regard.viz.report import Table

HOURS = np.datetime64("2024-01-01", "us") + np.arange(400) * np.timedelta64(3_600_000_000, "us")
TINY = [
    "data.history=8", "data.horizon=4", "model.encoder.size=6", "model.decoder.size=6",
    "model.encoder.embedding_size=5", "model.decoder.embedding_size=5", "model.attention={recipe: bahdanau, size: 6}",
    "training.batch_windows=8", "training.max_steps=4", "training.epochs=2", "training.samples=1",
    "training.device=cpu", "data.dev_stride=2",
]  # fmt: skip
Write = Callable[..., Path]


def wave(rows: int = 120, *, phase: float = 0.0) -> np.ndarray:
    t = np.arange(rows)
    noise = np.random.default_rng(int(10 * phase)).normal(size=(2, rows))
    return np.stack([5 + 3 * np.sin(t / 4 + phase) + 0.3 * noise[0], 100 + 20 * np.cos(t / 4) + noise[1]], 1)


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def stamp(row: int) -> str:
    return str(HOURS[row].astype("datetime64[s]"))


@pytest.fixture
def series(tmp_path: Path) -> Path:
    """A series of two targets."""
    values = wave()
    return write_csv(tmp_path / "series.csv", ["time", "a", "b"], [(stamp(i), *values[i]) for i in range(120)])


@pytest.fixture
def shops(tmp_path: Path) -> Path:
    """Three series of one target with a known input, missing values, and rows of the future."""
    rows = []
    rng = np.random.default_rng(1)
    for number, (name, length) in enumerate({"x": 100, "y": 60, "z": 40}.items()):
        values = wave(length, phase=number)[:, 0] * (number + 1)
        for i in range(length + 4):
            sold = "" if i >= length or rng.random() < 0.2 else f"{values[i]:.3f}"
            rows.append((stamp(i), name, i % 3, sold))
    return write_csv(tmp_path / "shops.csv", ["time", "shop", "offer", "sold"], rows)


SHOPS = ["data.series=shop", "data.known=[offer]"]
QUANTILES = ["model.quantiles=[0.1, 0.5, 0.9]"]


def configured(file: Path, *settings: str) -> Configuration:
    return from_preset("forecasting", [f"data.train={file}", *TINY, *settings])


def untrained(file: Path, *settings: str) -> tuple[Forecaster, SeriesData]:
    """A model with drawn weights, whose network changes the forecasts of the linear path."""
    config: Any = configured(file, *settings).config
    torch.manual_seed(1)
    material = read_material(config.data)
    model: Any = TASKS["forecasting"].build(config, material, name="m")
    with torch.no_grad():
        for parameter in model.module.parameters():
            if not parameter.any():
                parameter.normal_(std=0.3)
    return model, material


def told(model: Forecaster, **decoding: Any) -> Forecaster:
    """The model with other settings of its forecasts."""
    section = model.config.decoding.model_copy(update=decoding)
    return replace(model, config=model.config.model_copy(update={"decoding": section}))


def table_of(model: Forecaster, *files: Path, **options: Any) -> list[dict[str, str]]:
    """What `regard predict` prints, as rows."""
    predictions = model.predict([model.read(str(file)) for file in files])
    return list(csv.DictReader(list(model.lines(predictions, "csv", **options))))


# The laws of tasks


FEEDING = ["training.scheduled_sampling=0.3", "training.sequence_teacher_forcing=0.7", "model.decoder.dropout=0.2"]


@pytest.mark.parametrize("settings", [[], [*QUANTILES, "model.adds_to=previous"], ["model.channels=joint"]])
def test_a_series_alone_is_forecast_as_in_a_batch(shops: Path, settings: list[str]) -> None:
    model, _ = untrained(shops, *SHOPS, *settings)
    given = model.read(str(shops))
    (together,) = model.predict([given])
    assert [forecast.series for forecast in together.forecasts] == ["x", "y", "z"]
    for forecast, series in zip(together.forecasts, given.table.series, strict=True):
        alone = model.predict([SeriesFile("one", replace(given.table, series=(series,)))])[0].forecasts[0]
        np.testing.assert_allclose(alone.values, forecast.values, rtol=1e-5)
        np.testing.assert_allclose(alone.alignment, forecast.alignment, atol=1e-6)
    one_by_one = told(model, batch_windows=1).predict([given])[0]
    for left, right in zip(together.forecasts, one_by_one.forecasts, strict=True):
        np.testing.assert_allclose(left.values, right.values, rtol=1e-5)


def test_settings_of_another_task_are_refused_by_name(series: Path) -> None:
    with pytest.raises(ConfigError, match=r"decoding\.beam=2: unknown key; text_to_text"):
        configured(series, "decoding.beam=2")
    with pytest.raises(ConfigError, match=r"data\.horizon=3: unknown key; forecasting has it"):
        from_preset("g2p", [f"data.train={series}", "data.horizon=3"])


def test_every_metric_can_select(series: Path, tmp_path: Path) -> None:
    config: Any = configured(series, *QUANTILES).config
    model, material = untrained(series, *QUANTILES)
    metrics = ForecastTrainee(model, material).validate().metrics
    assert {metric.name for metric in TASKS["forecasting"].metrics} <= metrics.keys()
    outcome = train(configured(series, *QUANTILES, "select=pinball_loss", "training.max_steps=1"), tmp_path / "run")
    assert outcome.metrics["pinball_loss"] > 0
    with pytest.raises(ConfigError, match=r"select.*set model\.quantiles"):
        train(configured(series, "select=pinball_loss"), tmp_path / "other")
    assert config.select == "mean_squared_error"


def test_all_verbs_of_a_trained_model(series: Path, tmp_path: Path) -> None:
    train(configured(series, *QUANTILES), tmp_path / "run")
    model = load(tmp_path / "run")
    assert model.input_kind == "file"
    assert model.formats == ("csv", "jsonl")
    rows = table_of(model, series)
    assert list(rows[0]) == ["series", "step", "time", "a", "b", *(f"{n}_q{q}" for n in "ab" for q in (0.1, 0.5, 0.9))]
    assert [row["time"] for row in rows] == [stamp(120 + i) for i in range(4)]
    (prediction,) = model.predict([series])
    assert model.record(prediction)["forecasts"][0]["step"] == 1
    assert len(model.rows(prediction)) == 4
    assert [json.loads(line)["step"] for line in model.lines([prediction], "jsonl")] == [1, 2, 3, 4]
    several = list(csv.DictReader(list(model.lines(model.predict([series, series]), "csv"))))
    assert [row["file"] for row in several] == [str(series)] * 8
    for suffix in ("png", "svg", "html"):
        assert [path.stat().st_size > 5_000 for path in model.plot([prediction], tmp_path / f"a.{suffix}")] == [True]
    evaluation = model.evaluate(series)
    assert evaluation.num_forecasts == 21
    assert "without a network: repeat last MSE" in str(evaluation)
    assert evaluation.metrics["pinball_loss"] > 0
    assert 0 <= evaluation.metrics["coverage_0.9"] <= 1
    assert model.information()["parameters"] > 0
    assert repr(model).startswith("Forecaster('run'")
    with pytest.raises(UnsupportedError, match="no scores"):
        list(model.lines([prediction], "csv", scores=True))
    with pytest.raises(TypeError, match=r"predict\(\[file\]\)"):
        model.predict(series)


def test_a_model_is_restored_to_the_same_forecasts(shops: Path, tmp_path: Path) -> None:
    from regard.runs.store import save

    model, _ = untrained(shops, *SHOPS)
    save(model, tmp_path)
    assert table_of(load(tmp_path, device="cpu"), shops) == table_of(model, shops)
    (tmp_path / "series.json").write_text("{}")
    with pytest.raises(DataError, match=r"series\.json"):
        load(tmp_path)


# What is forecast


def test_weights_are_a_row_for_each_step_and_past_time_and_sum_to_one(shops: Path) -> None:
    model, _ = untrained(shops, *SHOPS)
    rows = table_of(model, shops, alignments=True)
    assert list(rows[0]) == ["series", "step", "time", "past_time", "weight"]
    sums: dict[tuple[str, str], float] = {}
    for row in rows:
        key = row["series"], row["step"]
        sums[key] = sums.get(key, 0.0) + float(row["weight"])
    assert len(sums) == 3 * 4
    assert all(abs(total - 1) < 1e-6 for total in sums.values())
    without, _ = untrained(shops, *SHOPS, "model.attention=null")
    with pytest.raises(UnsupportedError, match="without attention"):
        table_of(without, shops, alignments=True)
    assert table_of(without, shops)


@pytest.mark.parametrize("adds_to", ["linear", "previous", "nothing"])
@pytest.mark.parametrize("channels", ["separate", "joint"])
def test_a_free_run_is_teacher_forcing_with_what_it_said(series: Path, adds_to: str, channels: str) -> None:
    model, material = untrained(series, f"model.adds_to={adds_to}", f"model.channels={channels}")
    batch = material.validation_windows(model.config.data).batch([0, 3])
    values, _, _ = model.forecast_batch(batch)
    forced = training_batch(replace(batch, targets=values, targets_observed=np.ones_like(batch.targets_observed)))
    network = model.module
    conditions = network.prepare(forced)
    output = network.decoder(conditions.inputs(network.split(forced["previous"])), conditions.memory)
    np.testing.assert_allclose(network.joined(output.values, 2).detach().numpy(), values, atol=1e-5)


def test_training_with_feedback_throughout_has_the_loss_of_the_free_run(series: Path) -> None:
    model, material = untrained(series, "training.sequence_teacher_forcing=0.0", "model.decoder.dropout=0.0")
    trainee = ForecastTrainee(model, material)
    description = trainee.descriptions(0)[0]
    loss = trainee.loss(trainee.batch(description), step=0, generator=torch.Generator())
    batch = trainee.windows.batch(description)
    values, _, _ = model.forecast_batch(batch)
    expected = ((values - batch.targets)[batch.targets_observed] ** 2).sum()
    assert loss.total.item() == pytest.approx(expected, rel=1e-4)
    assert int(loss.count) == batch.targets.size


def test_an_untrained_network_forecasts_as_the_linear_map(shops: Path) -> None:
    config: Any = configured(shops, *SHOPS).config
    material = read_material(config.data)
    model: Any = TASKS["forecasting"].build(config, material, name="m")
    batch = material.validation_windows(config.data).batch([0, 1, 2])
    values, _, _ = model.forecast_batch(batch)
    expected = LinearForecast.fit(material.training_windows(config.data)).predict(batch)
    np.testing.assert_allclose(values, expected, atol=1e-5)


def test_the_linear_path_continues_short_histories_as_the_baseline_does(shops: Path) -> None:
    config: Any = configured(shops, *SHOPS).config
    material = read_material(config.data)
    model: Any = TASKS["forecasting"].build(config, material, name="m")
    windows = SeriesWindows(
        material.table, history=8, horizon=4, shortest_history=1, scale=material.scale, window_scale=WindowScale("last")
    )
    batch = windows.batch(range(12))
    assert not batch.history_mask.all()
    assert not batch.history_observed[batch.history_mask].all()
    values, _, _ = model.forecast_batch(batch)
    np.testing.assert_allclose(values, material.linear(config).predict(batch), atol=1e-5)


def test_the_first_input_is_the_last_observation(series: Path) -> None:
    model, material = untrained(series, "data.window_scale=none", "model.channels=joint", "model.adds_to=nothing")
    batch = material.validation_windows(model.config.data).batch([2])
    first = model.module.prepare(training_batch(batch)).first
    np.testing.assert_allclose(first[0, :2], batch.history[0, -1], rtol=1e-6)


def test_quantiles_are_in_order_and_the_median_is_the_forecast(shops: Path) -> None:
    model, _ = untrained(shops, *SHOPS, *QUANTILES)
    (prediction,) = model.predict([shops])
    for forecast in prediction.forecasts:
        assert forecast.quantiles is not None
        assert (np.diff(forecast.quantiles, axis=-1) > 0).all()
        np.testing.assert_allclose(forecast.quantiles[..., 1], forecast.values, rtol=1e-6)
    rows = table_of(told(model, quantiles=(0.9,)), shops)
    assert [name for name in rows[0] if "_q" in name] == ["sold_q0.9"]
    with pytest.raises(ConfigError, match=r"no quantile 0\.2: the model has the levels 0\.1, 0\.5, 0\.9"):
        told(model, quantiles=(0.2,)).predict([shops])
    with pytest.raises(ConfigError, match="model has no quantiles"):
        told(untrained(shops, *SHOPS)[0], quantiles=(0.5,)).predict([shops])


def test_missing_values_harm_nobody(series: Path, tmp_path: Path) -> None:
    model, _ = untrained(series)
    given = model.read(str(series))
    (one,) = given.table.series
    targets = one.targets.copy()
    targets[-6:-3, 0] = targets[-1, 1] = np.nan
    holes = replace(one, name="holes", targets=targets)
    empty = replace(one, name="empty", targets=np.full_like(one.targets, np.nan))
    (result,) = model.predict([SeriesFile("f", replace(given.table, series=(one, holes, empty)))])
    (alone,) = model.predict([given])
    assert [forecast.series for forecast in result.forecasts] == ["", "holes"]
    np.testing.assert_allclose(result.forecasts[0].values, alone.forecasts[0].values, rtol=1e-6)
    assert all(np.isfinite(forecast.values).all() for forecast in result.forecasts)
    assert "series 'empty' has no observed value to begin with" in result.warnings
    assert any("'holes' was not in the training data" in warning for warning in result.warnings)
    with pytest.raises(DataError, match="no observed value"):
        model.predict([SeriesFile("f", replace(given.table, series=(empty,)))], strict=True)


def test_values_that_are_too_large_warn_and_harm_nobody(series: Path) -> None:
    model, _ = untrained(series, "data.window_scale=none")
    given = model.read(str(series))
    (one,) = given.table.series
    large = replace(one, name="large", targets=np.where(np.arange(120)[:, None] == 118, 1e300, one.targets))
    scale = model.scale
    model.scale = StandardScale(
        ("", "large"), *(np.repeat(x, 2, 0) for x in (scale.mean, scale.deviation, scale.known_mean,
        scale.known_deviation)),
    )  # fmt: skip
    (result,) = model.predict([SeriesFile("f", replace(given.table, series=(one, large)))])
    (alone,) = model.predict([given])
    np.testing.assert_allclose(result.forecasts[0].values, alone.forecasts[0].values, rtol=1e-6)
    assert np.isfinite(result.forecasts[1].values).all()
    assert any(f"above {LARGEST:,.0f} deviations" in warning for warning in result.warnings)


def test_known_futures_are_read_and_missing_ones_are_named(shops: Path) -> None:
    model, _ = untrained(shops, *SHOPS)
    given = model.read(str(shops))
    (usual,) = model.predict([given])
    assert not [warning for warning in usual.warnings if "offer" in warning]
    series = given.table.series[0]
    known = series.known.copy()
    known[series.end + 1] += 5
    (other,) = model.predict([SeriesFile("f", replace(given.table, series=(replace(series, known=known),)))])
    assert np.abs(other.forecasts[0].values - usual.forecasts[0].values)[1:].max() > 1e-6
    known[series.end :] = np.nan
    (none,) = model.predict([SeriesFile("f", replace(given.table, series=(replace(series, known=known),)))])
    assert none.warnings == ("series 'x': 'offer' is missing for 4 of 4 steps ahead; its mean takes their place",)


def test_a_short_history_warns(series: Path) -> None:
    model, _ = untrained(series)
    given = model.read(str(series))
    (one,) = given.table.series
    few = replace(one, times=one.times[:5], targets=one.targets[:5], known=one.known[:5])
    (result,) = model.predict([SeriesFile("f", replace(given.table, series=(few,)))])
    assert result.warnings == ("the series has 5 rows; training had histories of 8",)
    assert len(result.forecasts[0].history) == 5


def test_steps_and_rows_that_are_held_back(series: Path) -> None:
    model, _ = untrained(series)
    (usual,) = model.predict([series])
    assert np.isnan(usual.forecasts[0].truth).all()
    (fewer,) = told(model, steps=2, hold_back=6).predict([series])
    (forecast,) = fewer.forecasts
    np.testing.assert_allclose(forecast.truth, wave()[114:116], rtol=1e-9)
    assert forecast.times[0] == HOURS[114]
    assert len(forecast.values) == 2
    with pytest.raises(ConfigError, match=r"the linear path has 4 steps \(data.horizon\), fewer than 5"):
        told(model, steps=5).predict([series])
    free, _ = untrained(series, "model.adds_to=previous")
    assert len(told(free, steps=9).predict([series])[0].forecasts[0].values) == 9


def test_a_report_has_errors_of_each_target_and_windows_that_do_not_overlap(series: Path) -> None:
    model, _ = untrained(series)
    evaluation = model.evaluate(series)
    tables = {each.title: each for each in model.report_facts(evaluation).sections if isinstance(each, Table)}
    worst = tables["The worst windows"].rows
    begun = [[stamp(i) for i in range(120)].index(row[0]) for row in worst]  # times are in the form of the file
    assert len(begun) > 2
    assert np.diff(sorted(begun)).min() >= 4
    assert [row[1] for row in worst] == sorted((row[1] for row in worst), reverse=True)
    errors = {row[0]: row[3] for row in tables["Errors of each target"].rows}
    assert errors == {name: each.original_mean_absolute_error for name, each in evaluation.by_target.items()}
    assert list(errors) == ["a", "b"]


def test_wide_files_are_series_of_one_target(series: Path) -> None:
    model, material = untrained(series, "data.wide=true")
    assert material.table.names == ("a", "b")
    assert model.facts.target_names == ("value",)
    assert [row["series"] for row in table_of(model, series)] == ["a"] * 4 + ["b"] * 4


def test_files_that_do_not_fit_the_model_are_refused(series: Path, tmp_path: Path) -> None:
    model, _ = untrained(series)
    other = write_csv(tmp_path / "other.csv", ["time", "a"], [(stamp(i), 1) for i in range(30)])
    with pytest.raises(DataError, match="no column 'b'; it has"):
        model.read(str(other))
    daily = write_csv(tmp_path / "daily.csv", ["time", "a", "b"], [(stamp(24 * i), i, 1) for i in range(12)])
    with pytest.raises(DataError, match="at steps of 1 day; m forecasts 'a', 'b' at steps of 1 hour"):
        model.read(str(daily))


def test_a_target_may_not_have_the_name_of_a_column_of_forecasts(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "steps.csv", ["day", "step"], [(f"2024-01-{i:02}", i) for i in range(1, 29)])
    with pytest.raises(DataError, match=r"steps\.csv: rename the target 'step'"):
        read_material(configured(file).config.data)


def test_training_may_start_from_another_model(
    series: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["training.max_steps=1", "training.samples=0"]
    train(configured(series, *few), tmp_path / "base")
    rows = [(stamp(i), *values) for i, values in enumerate(wave(130))]
    other = write_csv(tmp_path / "other.csv", ["time", "a", "c"], rows)
    train(configured(other, *few, f"training.start_from={tmp_path / 'base'}"), tmp_path / "run")
    said = capsys.readouterr().err
    assert "22 of 22 weights are copied" in said
    assert "targets: 'a', 'c' here, 'a', 'b' there" in said


def test_parquet_is_read_as_csv_is(shops: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    model, _ = untrained(shops, *SHOPS)
    frame = pandas.read_csv(shops)
    frame["time"] = pandas.to_datetime(frame["time"])
    frame.to_parquet(tmp_path / "shops.parquet")
    from_parquet = table_of(model, tmp_path / "shops.parquet")
    assert [{**row, "time": row["time"].replace(" ", "T")} for row in from_parquet] == table_of(model, shops)


# Evaluation


def test_a_rolling_evaluation_equals_direct_computation(series: Path) -> None:
    model, material = untrained(series, *QUANTILES)
    model.fingerprints = {"train": _fingerprint(series)}
    evaluation = model.evaluate(series)
    starts = range(96, 120 - 4 + 1)  # the test part is the last fifth
    assert evaluation.num_forecasts == len(starts)
    (mean,), (deviation,) = material.scale.mean, material.scale.deviation
    given, truth = model.read(str(series)), wave()
    squares, last, below = [], [], []
    for start in starts:
        cut = replace(given.table.series[0], targets=truth[:start], times=HOURS[:start], known=np.zeros((start, 0)))
        (forecast,) = model.predict([SeriesFile("f", replace(given.table, series=(cut,)))])[0].forecasts
        came = truth[start : start + 4]
        squares.append(((forecast.values - came) / deviation) ** 2)
        last.append(((truth[start - 1] - came) / deviation) ** 2)
        below.append(came <= forecast.quantiles[..., 2])
    assert evaluation.metrics["mean_squared_error"] == pytest.approx(np.mean(squares), rel=1e-5)
    assert evaluation.metrics["repeat_last_mean_squared_error"] == pytest.approx(np.mean(last), rel=1e-9)
    assert evaluation.metrics["coverage_0.9"] == pytest.approx(np.mean(below))
    assert evaluation.details["targets"]["a"]["num_values"] == 4 * len(starts)
    assert str(evaluation).startswith(f"{len(starts)} forecasts of 4 steps, 2024-01-05 to 2024-01-05 23:00:00: MSE ")
    assert [str(entry).partition(":")[0] for entry in evaluation.worst] == [str(series)]
    assert evaluation.scored[0].record()["num_values"] == 8 * len(starts)
    del mean


def _fingerprint(path: Path) -> str:
    from regard.runs.fingerprints import fingerprint

    return fingerprint(path)


def test_rows_that_training_saw_are_not_evaluated(series: Path, tmp_path: Path) -> None:
    model, _ = untrained(series, "data.split.counts=[60,20,20]")
    model.fingerprints = {"train": _fingerprint(series)}
    assert model.evaluate(series).num_forecasts == 20 - 4 + 1  # what follows the test part is not used
    values = wave(140)
    longer = write_csv(tmp_path / "longer.csv", ["time", "a", "b"], [(stamp(i), *values[i]) for i in range(140)])
    evaluation = model.evaluate(longer)
    assert evaluation.num_forecasts == 60 - 4 + 1
    assert evaluation.notes == (
        "rows that training may have seen are left out: the series, before 2024-01-04 08:00:00",
    )
    older = write_csv(tmp_path / "older.csv", ["time", "a", "b"], [(stamp(i), *values[i]) for i in range(70)])
    with pytest.raises(DataError, match=r"No window[^$]*\n  rows that training may have seen are left out"):
        model.evaluate(older)


def test_series_that_training_lacked_are_evaluated_whole(shops: Path, tmp_path: Path) -> None:
    model, _ = untrained(shops, *SHOPS)
    rows = [(stamp(i), "new", 0, 1 + i % 5) for i in range(30)]
    file = write_csv(tmp_path / "new.csv", ["time", "shop", "offer", "sold"], rows)
    evaluation = model.evaluate(file)
    assert evaluation.num_forecasts == 30 - 8 - 4 + 1
    assert evaluation.notes == ("not in the training data, scaled by their own values: 'new'",)


def test_a_held_out_file_validates(series: Path, tmp_path: Path) -> None:
    values = wave(60, phase=2)
    dev = write_csv(tmp_path / "dev.csv", ["time", "a", "b"], [(stamp(200 + i), *values[i]) for i in range(60)])
    model, material = untrained(series, f"data.dev={dev}", "data.dev_stride=1")
    assert len(material.validation_windows(model.config.data)) == 60 - 8 - 4 + 1
    assert material.split.bounds == ((0, 96, 96, 120),)
    assert [file.name for file in TASKS["forecasting"].files(model.config)] == ["train", "dev"]
    model.fingerprints = {}
    with pytest.raises(DataError, match="No window"):
        model.evaluate(dev)


# Data, configuration, and what follows from the data


def test_the_data_check_names_what_is_wrong(tmp_path: Path) -> None:
    values = wave(90)
    rows = [(stamp(i), values[i, 0], 7, "" if i % 3 else 1) for i in range(90) if i not in (20, 21)]
    file = write_csv(tmp_path / "series.csv", ["time", "a", "b", "c"], rows)
    report = str(read_material(configured(file).config.data).check(configured(file).config.data))
    assert (
        "warning: train: 2 rows have no value or are left out of the file; counted as missing (2024-01-01 20" in report
    )
    assert "warning: train: the column 'b' is constant" in report
    assert "warning: train: 67% of the values of 'c' are missing" in report
    config: Any = configured(file, "data.horizon=10").config
    checked = read_material(config.data).check(config.data)
    assert checked.has_errors
    assert "no window of 8 steps of history and 10 of the horizon fits into the validation" in str(checked)
    with pytest.raises(DataError, match=r"2 rows are left out in 1 gap"):
        read_material(configured(file, "data.fill_gaps=false").config.data)
    twice = write_csv(tmp_path / "twice.csv", ["time", "a"], [(stamp(i // 2), i) for i in range(30)])
    with pytest.raises(DataError, match=r"twice.csv:3: the time 2024-01-01T00:00:00 is repeated"):
        read_material(configured(twice).config.data)


def test_short_series_are_reported(shops: Path) -> None:
    config: Any = configured(shops, *SHOPS, "data.split.fractions=[0.5, 0.1, 0.4]", "data.horizon=5").config
    report = read_material(config.data).check(config.data)
    assert "warning: 1 series is too short for a window in the validation part and is left out there ('z'" in str(
        report
    )
    assert not report.has_errors


def test_sizes_follow_from_step_and_rows(tmp_path: Path) -> None:
    def sizes(step: Step, rows: int) -> tuple[int, int]:
        table = SeriesTable.of({"": np.sin(np.arange(rows))}, "2024-01-01", step)
        from regard.data.series import split_by_fractions
        from regard.tasks.forecasting.reading import suggested_sizes

        return suggested_sizes(table, split_by_fractions(table))

    hour, day = 3_600_000_000, 86_400_000_000
    assert sizes(Step(microseconds=hour), 20_000) == (96, 24)
    assert sizes(Step(microseconds=hour), 200) == (35, 10)
    assert sizes(Step(microseconds=day), 1_000) == (28, 7)
    assert sizes(Step(months=1), 144) == (25, 7)
    assert sizes(Step(microseconds=hour // 60), 50_000) == (192, 48)
    assert sizes(Step(months=12), 60) == (10, 3)


def test_the_plan_has_the_baselines(series: Path) -> None:
    config: Any = configured(series).config
    material = read_material(config.data)
    resolved = resolve(config, material)
    batch = next(material.validation_windows(config.data).batches())
    error = ((RepeatLast().predict(batch) - batch.targets) ** 2).mean()
    assert f"repeat last MSE {error:.4f}" in str(resolved)
    assert "plan: 73 windows of 8 steps" in str(resolved)
    assert "seasonal" not in str(resolved)  # a day does not fit into a history of eight hours


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.quantiles=[0.1, 0.9]"], r"model\.quantiles=.*: levels=\(0\.1, 0\.9\) must increase.* 0\.5"),
        (["training.loss=pinball_loss"], r"training\.loss=pinball_loss: .*: set model\.quantiles"),
        ([*QUANTILES, "training.loss=squared_error"], r"training\.loss=squared_error: .* squared_error ignores them"),
        (["decoding.steps=9"], r"decoding\.steps=9: the linear path has 4 steps"),
        (["model.decoder.tied_weights=true"], r"model\.decoder\.tied_weights.*expected False; got true"),
        (["data.split.counts=[100,20,20]"], r"data\.split\.counts.*has 120 rows"),
        (["data.split.fractions=[0.9,0.2,0.2]"], r"data\.split\.fractions.*together at most 1"),
        (["data.split.validation_from=yesterday"], r"data\.split\.validation_from.*ISO 8601"),
        (["data.split.test_from=2024-01-03"], "test_from needs validation_from"),
        (["data.split={counts: [60, 20, 20], validation_from: 2024-01-02}"], "both define the split"),
        (["model.attention={recipe: bahdanow}"], "did you mean 'bahdanau'"),
        (["data.time_features=[hours]"], "data.time_features"),
    ],
)
def test_settings_that_do_not_fit_are_named(series: Path, tmp_path: Path, settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train(configured(series, *settings), tmp_path / "run")


def test_settings_of_the_data_are_read(series: Path, tmp_path: Path) -> None:
    def material(*settings: str) -> tuple[Any, SeriesData]:
        config: Any = configured(series, *settings).config
        return config, read_material(config.data)

    config, data = material("data.targets=[b]", "data.known=[a]", "data.time=time", "data.stride=3")
    assert data.table.target_names == ("b",)
    assert data.table.known_names == ("a",)
    assert len(data.training_windows(config.data)) == 25
    config, data = material("data.split={validation_from: 2024-01-03, test_from: 2024-01-04}")
    assert data.split.bounds == ((0, 48, 72, 120),)
    config, data = material("data.split.validation_from=2024-01-04")
    assert data.split.bounds == ((0, 72, 120, 120),)
    config, data = material("data.time_features=[month]")
    assert data.training_windows(config.data).num_known == 2
    stamps = [(f"{i % 28 + 1:02}.01.2024", i) for i in range(28)]
    other = write_csv(tmp_path / "dates.csv", ["day", "a"], stamps)
    assert str(read_material(configured(other, "data.time_format='%d.%m.%Y'").config.data).table.step) == "1 day"


@pytest.mark.parametrize(
    ("kind", "centre", "deviation"), [("none", 0, 1), ("last", -1, 1), ("mean", None, 1), ("standard", None, None)]
)
def test_windows_are_scaled_as_asked(series: Path, kind: str, centre: Any, deviation: Any) -> None:
    config: Any = configured(series, f"data.window_scale={kind}").config
    material = read_material(config.data)
    batch = material.training_windows(config.data).batch([5])
    scaled = (wave()[5:13] - material.scale.mean) / material.scale.deviation
    expected = scaled - (0 if centre == 0 else scaled[-1] if centre == -1 else scaled.mean(0))
    expected = expected if deviation == 1 else expected / scaled.std(0)
    np.testing.assert_allclose(batch.history[0], expected, atol=1e-9)


def test_losses_are_as_configured(series: Path) -> None:
    def loss(*settings: str) -> tuple[float, np.ndarray]:
        model, material = untrained(series, *settings, "model.decoder.dropout=0.0", "model.encoder.dropout=0.0")
        trainee = ForecastTrainee(model, material)
        batch = trainee.batch([0, 1])
        total = trainee.loss(batch, step=0, generator=torch.Generator())
        network = model.module
        conditions = network.prepare(batch)
        output = network.decoder(conditions.inputs(network.split(batch["previous"])), conditions.memory)
        apart = network.split(batch["targets"]) - output.values
        return total.total.item() / int(total.count), apart.detach().numpy()

    value, apart = loss()
    assert value == pytest.approx((apart**2).mean(), rel=1e-5)
    value, apart = loss("training.loss=absolute_error")
    assert value == pytest.approx(abs(apart).mean(), rel=1e-5)
    value, apart = loss("model.quantiles=[0.5]")
    assert value == pytest.approx(abs(apart).mean() / 2, rel=1e-5)


def test_the_penalty_is_that_of_the_linear_map(series: Path) -> None:
    weights = [untrained(series, f"model.linear_penalty={penalty}")[0].linear.weights for penalty in (1.0, 100.0)]
    assert np.abs(weights[1][:, :-1]).sum() < np.abs(weights[0][:, :-1]).sum()


@pytest.mark.parametrize("settings", [[], QUANTILES])
def test_a_compiled_loss_is_the_same(series: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str]) -> None:
    monkeypatch.setattr("regard.tasks.compilation.BACKEND", "eager")
    losses = []
    for compiles in ("false", "true"):
        model, material = untrained(series, f"training.compile={compiles}", "model.decoder.dropout=0.0", *settings)
        trainee = ForecastTrainee(model, material)
        loss = trainee.loss(trainee.batch(trainee.descriptions(0)[1]), step=0, generator=torch.Generator())
        losses.append((loss.total.item(), int(loss.count)))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    with pytest.raises(ConfigError, match="leave out either compile or these two"):
        TASKS["forecasting"].draft(configured(series, "training.compile=true", *FEEDING).config)


def test_items_are_windows_or_their_targets(series: Path) -> None:
    model, material = untrained(series)
    trainee = ForecastTrainee(model, material)
    assert trainee.item_ids([3, 5]).tolist() == [6, 7, 10, 11]
    parts = trainee.divide(np.arange(5), 2)
    assert [list(part) for part in parts] == [[0, 2, 4], [1, 3]]
    joint, material = untrained(series, "model.channels=joint")
    assert ForecastTrainee(joint, material).item_ids([3, 5]).tolist() == [3, 5]
    assert sorted(np.concatenate(trainee.descriptions(0))) == list(range(73))
    assert list(trainee.descriptions(0)[0]) != list(trainee.descriptions(1)[0])


def test_a_model_worse_than_the_last_value_is_a_concern(series: Path) -> None:
    model, material = untrained(series)
    with torch.no_grad():
        model.module.decoder.core.head.projection.bias.fill_(9.0)
    concern = ForecastTrainee(model, material).validate().concern
    assert concern is not None
    assert concern.startswith("The saved model's forecasts are worse than the last value")


def test_quantiles_are_learned_in_free_running_mode(series: Path) -> None:
    def share(*settings: str) -> float:
        config: Any = configured(series, *settings).config
        return resolve(config, read_material(config.data)).config.training.sequence_teacher_forcing

    assert (share(), share(*QUANTILES), share(*QUANTILES, "training.sequence_teacher_forcing=0.3")) == (1.0, 0.0, 0.3)


def test_the_plan_follows_the_data(series: Path) -> None:
    config: Any = from_preset("forecasting", [f"data.train={series}"]).config
    plan = resolve(config, read_material(config.data)).config
    assert (plan.data.history, plan.data.horizon, plan.data.dev_stride) == (21, 6, 1)
    assert plan.training.epochs * -(-58 // plan.training.batch_windows) >= 300


# Zones, floors, and series that are too short


def zoned(folder: Path, start: str, rows: int, form: str = "offset", name: str = "zoned.csv") -> Path:
    """Hours of Europe/Berlin."""
    pandas = pytest.importorskip("pandas")
    times = pandas.date_range(start, periods=rows, freq="h", tz="Europe/Berlin")
    texts = {
        "offset": [time.isoformat() for time in times],
        "utc": [time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in times.tz_convert("UTC")],
        "local": [time.isoformat() for time in times.tz_localize(None)],
    }[form]
    return write_csv(folder / name, ["time", "a", "b"], list(zip(texts, *wave(rows).T)))


def test_a_model_keeps_the_calendar_of_its_series_whatever_the_form_of_a_file(tmp_path: Path) -> None:
    from regard.runs.store import save

    model, _ = untrained(zoned(tmp_path, "2025-03-26", 200))
    save(model, tmp_path / "run")
    model = load(tmp_path / "run", device="cpu")
    assert model.facts.zones == {"": "Europe/Berlin"}
    tables = {
        form: table_of(model, zoned(tmp_path, "2025-10-22", 90, form, f"{form}.csv"))
        for form in ("offset", "utc", "local")
    }
    for name in "ab":  # features are of the same hours
        assert len({tuple(row[name] for row in table) for table in tables.values()}) == 1
    assert [table[0]["time"] for table in tables.values()] == [
        "2025-10-25T18:00:00+02:00", "2025-10-25T16:00:00Z", "2025-10-25T18:00:00",
    ]  # fmt: skip
    at_change = table_of(model, zoned(tmp_path, "2025-10-25", 26))  # all rows are at +02:00
    assert [row["time"][11:] for row in at_change] == [
        "02:00:00+02:00",
        "02:00:00+01:00",
        "03:00:00+01:00",
        "04:00:00+01:00",
    ]


def test_parts_begin_at_local_times(tmp_path: Path) -> None:
    config: Any = configured(zoned(tmp_path, "2025-03-26", 200), "data.split.validation_from='2025-03-31'").config
    material = read_material(config.data)
    assert material.split.bounds == ((0, 119, 200, 200),)  # five days, of which one has 23 hours
    assert "2025-03-26+01:00 to 2025-04-03 08:00:00+02:00" in str(material.check(config.data))


def counts(folder: Path, rows: int = 150) -> Path:
    drawn = np.random.default_rng(0).poisson(1.0, rows)
    values = [(stamp(i), number, f"{number - 0.5:.1f}") for i, number in enumerate(drawn.tolist())]
    return write_csv(folder / "counts.csv", ["time", "sold", "gain"], values)


def test_counts_are_not_forecast_below_zero(tmp_path: Path) -> None:
    file = counts(tmp_path)
    config: Any = configured(file).config
    plan = resolve(config, read_material(config.data))
    assert plan.config.data.minimum == {"sold": 0.0}
    assert "data.minimum={sold: 0}" in str(plan)

    def least(*settings: str) -> tuple[float, float]:
        model, _ = untrained(file, *settings, *QUANTILES)
        with torch.no_grad():
            model.module.decoder.core.head.projection.bias -= 9.0
        (prediction,) = model.predict([file])
        (forecast,) = prediction.forecasts
        return forecast.quantiles[:, 0].min(), forecast.quantiles[:, 1].min()

    assert min(least()) < -5
    assert least("data.minimum={sold: 0}")[0] == 0
    assert least("data.minimum={sold: 0}")[1] < -5
    assert least("data.minimum=-0.25") == (-0.25, -0.25)
    explicit: Any = configured(file, "data.minimum=null").config
    assert resolve(explicit, read_material(explicit.data)).config.data.minimum is None
    with pytest.raises(ConfigError, match=r"data\.minimum.*there is no target 'solt'"):
        train(configured(file, "data.minimum={solt: 0}"), tmp_path / "run")
    low: Any = configured(file, "data.minimum={gain: 0}").config
    report = str(read_material(low.data).check(low.data))
    assert "values of 'gain' below data.minimum=0, which no forecast will be" in report


def test_series_without_training_rows_are_left_out_and_named(shops: Path, tmp_path: Path) -> None:
    header, *rows = list(csv.reader(shops.open()))
    more = [(stamp(5), "one", 0, 3), *[(stamp(i), "empty", 0, "") for i in range(9)]]
    more += [(stamp(i), "late", 0, "" if i < 25 else 1) for i in range(30)]
    file = write_csv(tmp_path / "more.csv", header, [*rows, *more])
    config: Any = configured(file, *SHOPS).config
    material = read_material(config.data)
    assert material.table.names == ("x", "y", "z")
    line = len(rows) + 2
    assert (
        "warning: train: 3 series have no value in their training rows and are left out "
        f"(series 'one' of {file}:{line}, series 'empty' of {file}:{line + 1}, series 'late' of {file}:{line + 10})"
    ) in str(material.check(config.data))
    model, _ = untrained(file, *SHOPS)
    (prediction,) = model.predict([file])
    assert [forecast.series for forecast in prediction.forecasts] == ["x", "y", "z", "one", "late"]
    assert "series 'empty' has no observed value to begin with" in prediction.warnings
    for split in ("data.split.counts=[50,10,10]", "data.split.validation_from=2024-01-03"):
        parts: Any = configured(file, *SHOPS, split).config
        assert "x" in read_material(parts.data).table.names
    none = write_csv(
        tmp_path / "none.csv", ["time", "a", "b"], [(stamp(i), i, "" if i < 90 else 1) for i in range(100)]
    )
    with pytest.raises(DataError, match=r"none\.csv: the target 'b' has no value in the training rows \(.*first 70\)"):
        read_material(configured(none).config.data)


def test_a_target_without_training_values_is_scaled_by_its_later_ones(tmp_path: Path) -> None:
    rows = [(stamp(i), "x", i % 5, i % 7) for i in range(60)]
    rows += [(stamp(i), "y", i % 5, "" if i < 50 else 100 + i) for i in range(60)]
    file = write_csv(tmp_path / "late.csv", ["time", "shop", "a", "b"], rows)
    config: Any = configured(file, "data.series=shop").config
    material = read_material(config.data)
    assert material.scale.mean[1].tolist() == pytest.approx([np.mean([i % 5 for i in range(42)]), 154.5])
    assert "the target 'b' of 1 series has no value in the training rows; it is not trained there, and" in str(
        material.check(config.data)
    )


def test_held_out_rows_that_are_trained_on_are_counted(series: Path, tmp_path: Path) -> None:
    values = [*wave(), *wave(30)]
    dev = write_csv(tmp_path / "dev.csv", ["time", "a", "b"], [(stamp(i), *values[i]) for i in range(80, 150)])
    config: Any = configured(series, f"data.dev={dev}").config
    report = str(TASKS["forecasting"].checked(config, read_material(config.data)))
    assert "warning: 16 of 70 held-out items are also in the training, with the same output" in report
    assert f"({dev}:2 is {series}:82, " in report
    with pytest.raises(DataError, match="cannot be trained on these data"):
        train(configured(series, f"data.dev={series}"), tmp_path / "run")


def test_pictures_of_rows_and_numbers_have_no_dates(tmp_path: Path) -> None:
    values = wave(60)
    numbers = write_csv(tmp_path / "n.csv", ["cycle", "a", "b"], [(i, *values[i]) for i in range(60)])
    odd = [(stamp(i * i % 7 + 7 * i), *values[i]) for i in range(57)]
    rows = write_csv(tmp_path / "r.csv", ["time", "a", "b"], odd)
    for file, settings, first in ((numbers, [], "60"), (rows, ["data.step=rows"], "")):
        model, _ = untrained(file, *settings)
        (prediction,) = model.predict([file])
        assert table_of(model, file)[0]["time"] == first
        model.plot([prediction], tmp_path / "a.png")
    for settings, message in (
        (["data.time_features=[month]"], r"data\.time_features.*rows at steps of 1 unit have no calendar"),
        (["data.numbered_rows=true", "data.time_format=x"], r"data\.time_format.*numbered_rows"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            train(configured(numbers, *settings), tmp_path / "run")
    with pytest.raises(DataError, match="times are whole numbers; rows at steps of 1 hour are expected"):
        untrained(zoned(tmp_path, "2025-01-01", 60))[0].read(str(numbers))
