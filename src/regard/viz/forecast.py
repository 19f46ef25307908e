"""Pictures of forecasts: history, forecast with quantiles, truth, and the weights over the past on one axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.data.series.forecasts import Forecast, all_times
from regard.errors import RegardError
from regard.viz.colours import ramp
from regard.viz.files import DRAWN, check_highest, suffix_of
from regard.viz.labels import visible_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_TARGETS = 8
"""Targets that are drawn if none are named."""
WIDTH, LINES, SEVERAL, MATRIX, STRIP = 9.0, 1.75, 1.2, 2.2, 0.4
"""The width of the picture and the heights of a target, of one of more than three, of the weights, and of the weights
of a single step, in inches."""
LEFT, BAR = 0.75, 0.75
"""The left margin, and the width of the scale of colours, in inches."""
FORECAST, TRUTH, HISTORY = "#c2410c", "#1b1f24", "#57606a"
RULE = "#d0d7de"


def plot_forecast(
    forecast: Forecast,
    path: str | Path,
    *,
    targets: Sequence[str] | None = None,
    title: str | None = None,
    highest: float | Literal["largest"] = "largest",
) -> Path:
    """Draws a forecast: a panel for each target, and below them, on the same axis of time, the weights of each step.

    The forecast is a line with bands between the lowest and the highest quantile, the next lowest and the next highest,
    and so on. The truth, if known, is a dashed line. Missing values are gaps. The weights are a matrix, a row for each
    step ahead and a column for each time of the history, darker is more weight; for a single step they are a strip.

    Args:
        forecast: one of `regard.data.series.forecasts_of`.
        path: ends in .png, .svg, .pdf or .html (the picture as SVG in a page that sends no requests).
        targets: the names of the targets that are drawn; the first eight if None.
        title: the text above the picture; the series' name if None.
        highest: the weight of the darkest colour, or "largest", the largest weight.

    Raises:
        RegardError: for another suffix, or a target that the forecast lacks.

    >>> import tempfile
    >>> from regard.data.series import RepeatLast, SeriesTable, Step, SeriesWindows, forecasts_of
    >>> table = SeriesTable.of({"shop": np.sin(np.arange(40))}, "2024-01-01", Step(months=1))
    >>> batch = SeriesWindows(table, history=24, horizon=6).batch([0])
    >>> (forecast,) = forecasts_of(batch, RepeatLast().predict(batch))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plot_forecast(forecast, folder + "/shop.svg").name
    'shop.svg'
    """
    target = Path(path)
    suffix = suffix_of(target, DRAWN)
    names = list(forecast.target_names[:MAX_TARGETS] if targets is None else targets)
    unknown = [name for name in names if name not in forecast.target_names]
    if unknown or not names:
        raise RegardError(
            f"targets are some of {', '.join(map(repr, forecast.target_names))}; got "
            f"{repr(unknown[0]) if unknown else 'none'}."
        )
    check_highest(highest)
    title = forecast.series if title is None else title
    figure = draw_forecast(forecast, names, title, highest)
    target.parent.mkdir(parents=True, exist_ok=True)
    if suffix != ".html":
        figure.savefig(target)
        return target
    picture = StringIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    image = picture.getvalue()
    image = image[image.index("<svg") :]
    target.write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title or "Forecast")}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<style>body{margin:1rem auto;max-width:64rem;background:#fff}"
        "main{overflow-x:auto}svg{width:100%;min-width:40rem;height:auto}</style></head>\n"
        f'<body><main tabindex="0">{image}</main></body></html>\n',
        encoding="utf-8",
    )
    return target


def draw_forecast(
    forecast: Forecast, names: Sequence[str], title: str, highest: float | Literal["largest"] = "largest"
) -> Figure:
    """The figure of a forecast."""
    from matplotlib.figure import Figure

    from regard.viz.fonts import Typesetter
    from regard.viz.picture import DPI, FAINT, INK, set_text

    title = visible_words(title)
    type_ = Typesetter([title, *names])
    weights = forecast.alignment
    edges = edges_of(_positions(forecast))
    heights = [LINES if len(names) <= 3 else SEVERAL] * len(names)
    right = 0.12
    if weights is not None:
        heights.append(STRIP if len(weights) == 1 else MATRIX)
        beside = (WIDTH - LEFT) * (edges[-1] - edges[weights.shape[1]]) / (edges[-1] - edges[0])
        right = right if beside > BAR else BAR
    head, foot = (0.66 if title else 0.38), 0.4
    height = sum(heights) + 0.2 * (len(heights) - 1) + head + foot
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    grid = figure.add_gridspec(
        len(heights), 1, height_ratios=heights, hspace=0.2 / np.mean(heights), left=LEFT / WIDTH,
        right=1 - right / WIDTH, top=1 - head / height, bottom=foot / height,
    )  # fmt: skip
    panels: list[Axes] = []
    for row in range(len(heights)):
        panels.append(figure.add_subplot(grid[row], sharex=panels[0] if panels else None))
    for axes, name in zip(panels, names, strict=False):
        _lines(axes, forecast, forecast.target_names.index(name), edges)
        axes.set_ylabel(type_.drawable(name), fontsize=9, color=INK)
        set_text(axes.yaxis.label, type_)
        axes.margins(y=0.08)
    if weights is not None:
        _weights(figure, panels[-1], weights, edges, highest)
    for axes in panels:
        axes.axvline(edges[len(forecast.history_times)], color=HISTORY, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
        axes.set_xlim(edges[0], edges[-1])
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(RULE)
        axes.tick_params(colors=FAINT, labelsize=8, length=3, color=RULE, labelbottom=axes is panels[-1])
    _label_times(panels[-1], forecast)
    panels[-1].xaxis.get_offset_text().set(color=FAINT, fontsize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="center left", bbox_to_anchor=(LEFT / WIDTH, 1 - (head - 0.2) / height),
        ncols=len(labels), frameon=False, fontsize=8.5, labelcolor=INK, handlelength=1.6, columnspacing=1.6,
        borderpad=0, borderaxespad=0,
    )  # fmt: skip
    heading = figure.text(LEFT / WIDTH, 1 - 0.22 / height, type_.drawable(title), va="center", fontsize=11, color=INK)
    set_text(heading, type_)
    figure.align_ylabels(panels)
    return figure


def _positions(forecast: Forecast) -> NDArray[np.float64]:
    """(S + T,) places on the axis of time: matplotlib's numbers of the times, the times themselves if they are whole
    numbers, or, where they are unknown, steps after the last row of the history."""
    from matplotlib.dates import date2num

    times = all_times(forecast)
    if forecast.clock.is_integer:
        return times.astype(np.int64).astype(np.float64)
    if np.isnat(times).any():
        return np.arange(len(times), dtype=np.float64) - len(forecast.history_times) + 1
    return np.asarray(date2num(times), np.float64)  # type: ignore[no-untyped-call]


def _label_times(axes: Axes, forecast: Forecast) -> None:
    """Labels the axis of time in the time zone of the series."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator

    if forecast.clock.is_integer or np.isnat(all_times(forecast)).any():
        axes.xaxis.set_major_locator(MaxNLocator(9, integer=True))
        return
    zone = forecast.clock.written or forecast.clock.zone
    tz = UTC if zone is None else zone.tzinfo
    locator = AutoDateLocator(minticks=4, maxticks=9, tz=tz)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=tz))  # type: ignore[no-untyped-call]


def edges_of(at: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N + 1,) the edges of cells around places (N,) on the axis, halfway between neighbours."""
    if len(at) == 1:
        return np.array([at[0] - 0.5, at[0] + 0.5])
    middle = (at[1:] + at[:-1]) / 2
    return np.concatenate([[2 * at[0] - middle[0]], middle, [2 * at[-1] - middle[-1]]])


def _lines(axes: Axes, forecast: Forecast, target: int, edges: NDArray[np.float64]) -> None:
    """History, forecast with bands, and truth of a target."""
    centres = _positions(forecast)
    now = len(forecast.history_times)
    past, ahead = centres[:now], centres[now:]
    history, values, truth = (x[:, target] for x in (forecast.history, forecast.values, forecast.truth))
    axes.axvspan(float(edges[now]), float(edges[-1]), color="#f6f8fa", zorder=0, linewidth=0)
    axes.grid(axis="y", color="#eaeef2", linewidth=0.7, zorder=0)
    axes.plot(past, history, color=HISTORY, linewidth=1.3, label="history", zorder=3)
    _isolated(axes, past, history, HISTORY)
    if forecast.quantiles is not None:
        order = np.argsort(forecast.levels)
        for depth, (first, last) in enumerate(zip(order[: len(order) // 2], order[::-1], strict=False)):
            low, high = (forecast.quantiles[:, target, q] for q in (first, last))
            share = forecast.levels[last] - forecast.levels[first]
            label = f"{share:.0%} interval"
            axes.fill_between(ahead, low, high, color=_tint(0.18 + 0.14 * depth), linewidth=0, label=label, zorder=2)
    if len(ahead) > 1:
        axes.plot(ahead, values, color=FORECAST, linewidth=1.8, label="forecast", zorder=5)
    else:
        axes.plot(ahead, values, "o", color=FORECAST, markersize=5, label="forecast", zorder=5)
    if not np.isnan(truth).all():
        axes.plot(ahead, truth, color=TRUTH, linewidth=1.2, linestyle=(0, (3, 1.6)), label="truth", zorder=4)
        _isolated(axes, ahead, truth, TRUTH)


def _tint(strength: float) -> tuple[float, ...]:
    """The colour of the forecast on white."""
    from matplotlib.colors import to_rgb

    return tuple(1 - min(strength, 0.8) * (1 - part) for part in to_rgb(FORECAST))


def _isolated(axes: Axes, at: NDArray[np.float64], values: NDArray[np.float64], colour: str) -> None:
    """Marks values whose neighbours are missing, which a line does not show."""
    known = np.concatenate([[False], ~np.isnan(values), [False]])
    isolated = known[1:-1] & ~known[:-2] & ~known[2:]
    axes.plot(at[isolated], values[isolated], ".", color=colour, markersize=3.5, zorder=4)


def _weights(
    figure: Figure, axes: Axes, weights: Any, edges: NDArray[np.float64], highest: float | Literal["largest"]
) -> None:
    """The weights (T, S) below the history; their scale of colours is below the forecast."""
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    from regard.viz.picture import FAINT, INK, colour_bar

    steps, past = weights.shape
    top = (float(weights.max(initial=0.0)) or 1.0) if highest == "largest" else highest
    mesh: Any = axes.pcolormesh(
        edges[: past + 1], np.arange(steps + 1) + 0.5, weights, cmap=ListedColormap(ramp()), vmin=0, vmax=top,
        rasterized=True,
    )  # fmt: skip
    axes.set_ylim(steps + 0.5, 0.5)
    if steps == 1:
        axes.set_ylabel("weights", fontsize=9, color=INK)
        axes.set_yticks([])
    else:
        axes.set_ylabel("steps ahead", fontsize=9, color=INK)
        inner = MaxNLocator(4, integer=True).tick_values(1, steps)
        axes.set_yticks([1, *(tick for tick in inner if 0.1 * steps < tick < 0.9 * steps), steps])
    box = axes.get_position()
    beside = box.width * (edges[-1] - edges[past]) / (edges[-1] - edges[0])
    start = box.x1 - beside if beside * WIDTH > BAR else box.x1
    tall = 0.78 if steps > 1 else 0.9
    bar_box = (start + 0.18 / WIDTH, box.y0 + 0.02 * box.height, 0.1 / WIDTH, tall * box.height)
    bar = colour_bar(figure, bar_box, mesh, [weights], 2 if steps == 1 else 3, 7.5)
    if steps > 1:
        bar.set_title("weight", fontsize=7.5, color=FAINT, loc="left", pad=6)
