"""Pictures of forecasts: what is drawn where on the axis of time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.dates import date2num

from regard.data.series import Forecast
from regard.errors import RegardError
from regard.viz import plot_forecast
from regard.viz.forecast import draw_forecast, edges_of


def hours(count: int, start: int = 0) -> np.ndarray:
    return np.datetime64("2024-01-01", "us") + np.arange(start, start + count) * np.timedelta64(1, "h")


def forecast_of(past: int = 48, ahead: int = 12, targets: int = 2) -> Forecast:
    phase = 2 * np.pi * np.arange(past + ahead)[:, None] / 24 + np.arange(targets)
    values = np.sin(phase)
    weights = np.exp(np.cos(2 * np.pi * (np.arange(past)[None] - np.arange(ahead)[:, None]) / 24))
    return Forecast(
        series="plant 3",
        target_names=tuple(f"load{i}" for i in range(targets)),
        history_times=hours(past),
        history=values[:past],
        times=hours(ahead, past),
        values=0.9 * values[past:],
        truth=values[past:],
        levels=(0.1, 0.5, 0.9),
        quantiles=0.9 * values[past:, :, None] + np.array([-0.4, 0.0, 0.4]),
        alignment=weights / weights.sum(axis=1, keepdims=True),
    )


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".html"])
def test_a_forecast_is_drawn_into_each_kind_of_file(tmp_path: Path, suffix: str) -> None:
    path = plot_forecast(forecast_of(), tmp_path / "new" / f"a{suffix}", title="a $price$ & <b>")
    assert path.stat().st_size > 5_000
    if suffix == ".png":
        image = matplotlib.image.imread(path)[..., :3]
        assert (image < 0.5).any()
    if suffix == ".html":
        page = path.read_text(encoding="utf-8")
        assert "<title>a $price$ &amp; &lt;b&gt;</title>" in page
        assert page.count("<svg") == 1


def test_lines_bands_and_weights_share_the_axis_of_time() -> None:
    forecast = forecast_of()
    figure = draw_forecast(forecast, ["load0", "load1"], "two")
    first, second, weights, _ = figure.axes
    assert [axes.get_ylabel() for axes in (first, second, weights)] == ["load0", "load1", "steps ahead"]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["history", "80% interval", "forecast", "truth"]
    lines = {line.get_label(): line for line in second.get_lines()}
    np.testing.assert_allclose(lines["history"].get_ydata(), forecast.history[:, 1])
    np.testing.assert_allclose(lines["forecast"].get_xdata(), date2num(forecast.times))
    assert first.get_xlim() == second.get_xlim() == weights.get_xlim()
    (mesh,) = weights.collections
    np.testing.assert_allclose(np.asarray(mesh.get_array()), forecast.alignment)
    np.testing.assert_allclose(
        mesh.get_coordinates()[0, -1, 0], edges_of(date2num(hours(60)))[48]
    )  # they end where it begins
    assert weights.get_ylim() == (12.5, 0.5)


def test_without_quantiles_truth_and_weights_there_are_lines_only() -> None:
    forecast = forecast_of()
    bare = replace(forecast, quantiles=None, levels=(), alignment=None, truth=np.full_like(forecast.truth, np.nan))
    figure = draw_forecast(bare, ["load0"], "")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["history", "forecast"]
    assert len(figure.axes) == 1


def test_a_single_step_is_a_point_and_a_strip() -> None:
    forecast = forecast_of(ahead=1)
    figure = draw_forecast(forecast, ["load0"], "one")
    lines, strip, bar = figure.axes
    assert {line.get_label(): line for line in lines.get_lines()}["forecast"].get_marker() == "o"
    assert strip.get_ylabel() == "weights"
    assert bar.get_position().x0 > strip.get_position().x1 - 1e-9
    assert bar.get_position().x1 < 1


def test_a_value_between_missing_ones_is_a_point() -> None:
    forecast = forecast_of()
    history = forecast.history.copy()
    history[[9, 11]] = np.nan
    figure = draw_forecast(replace(forecast, history=history), ["load0"], "")
    points = [line for line in figure.axes[0].get_lines() if line.get_marker() == "."]
    np.testing.assert_allclose(points[0].get_xdata(), date2num(hours(48)[[10]]))


def test_the_darkest_colour_is_the_largest_weight_or_the_one_that_is_asked_for() -> None:
    forecast = forecast_of()
    assert forecast.alignment is not None
    largest = forecast.alignment.max()
    for highest, top in (("largest", largest), (0.5, 0.5)):
        (mesh,) = draw_forecast(forecast, ["load0"], "", highest).axes[1].collections
        assert mesh.get_clim() == (0, pytest.approx(top))


def test_many_targets_are_cut_unless_they_are_named(tmp_path: Path) -> None:
    forecast = forecast_of(targets=10)
    figure = draw_forecast(forecast, forecast.target_names, "")
    assert len(figure.axes) == 12
    small = matplotlib.image.imread(plot_forecast(forecast, tmp_path / "a.png"))
    one = matplotlib.image.imread(plot_forecast(forecast, tmp_path / "b.png", targets=["load9"]))
    assert one.shape[0] < small.shape[0] < figure.get_size_inches()[1] * figure.dpi


def test_a_history_of_one_step_has_an_edge_on_both_sides() -> None:
    np.testing.assert_allclose(np.diff(edges_of(date2num(hours(1)))), [1.0])
    np.testing.assert_allclose(np.diff(edges_of(date2num(hours(3)))) * 24, 1)


def test_wrong_suffixes_targets_and_weights_are_refused(tmp_path: Path) -> None:
    forecast = forecast_of()
    with pytest.raises(RegardError, match=r"\.gif"):
        plot_forecast(forecast, tmp_path / "a.gif")
    with pytest.raises(RegardError, match="targets are some of 'load0', 'load1'; got 'x'"):
        plot_forecast(forecast, tmp_path / "a.png", targets=["x"])
    with pytest.raises(RegardError, match="got none"):
        plot_forecast(forecast, tmp_path / "a.png", targets=[])
    with pytest.raises(RegardError, match="highest must be a weight above 0"):
        plot_forecast(forecast, tmp_path / "a.png", highest=0.0)
    assert not list(tmp_path.iterdir())
