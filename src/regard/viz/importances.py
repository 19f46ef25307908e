"""What mattered in a search for settings: the importance of each key, and the results by its values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.config.ranges import label
from regard.errors import RegardError
from regard.viz.curves import STROKES
from regard.viz.files import PICTURES, suffix_of

ACROSS, PANELS = 3, 8
"""Panels in a row, and the most panels with values of keys."""
LOG_SPAN = 20.0
"""The ratio of the largest to the smallest value from which an axis is logarithmic."""
LONGEST, ROOM = 22, 26
"""The most characters of a choice's name, and of all in a row that is not slanted."""
POINT, STOPPED, FIRST = STROKES[0], "#9aa4b1", STROKES[1]


def plot_importances(
    path: str | Path,
    settings: Mapping[str, Sequence[Any]],
    values: Sequence[float],
    *,
    importances: Mapping[str, float],
    metric: str,
    larger_is_better: bool = False,
    stopped: Sequence[bool] = (),
    first: int | None = None,
) -> Path:
    """Draws importances as bars, and a panel for each key with the results by its values.

    Args:
        path: ends in .png, .svg or .pdf.
        settings: by key, its value in every training; numbers, or choices.
        values: the result of every training.
        importances: by key; none: there are no bars.
        metric: the name of the results.
        larger_is_better: whether larger results are better.
        stopped: whether each training was stopped before its end; none if empty.
        first: the training with the settings to compare with, or None.

    Raises:
        RegardError: for another suffix, no training, or keys with another number of values.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    from regard.viz.fonts import Typesetter
    from regard.viz.picture import DPI, FAINT, INK, set_text

    target = Path(path)
    suffix_of(target, PICTURES)
    if not values:
        raise RegardError("values is empty: there is no training.")
    if wrong := next((key for key, each in settings.items() if len(each) != len(values)), None):
        raise RegardError(
            f"settings[{wrong!r}] has {len(settings[wrong])} values, but there are {len(values)} results."
        )
    stopped = stopped or [False] * len(values)
    shown = sorted(settings, key=lambda key: -importances.get(key, 0.0))[:PANELS]
    count = len(shown) + bool(importances)
    across = 2 if count == 4 else min(count, ACROSS)
    down = math.ceil(count / across)
    texts = [metric, *settings, *(label(value) for each in settings.values() for value in each)]
    type_ = Typesetter(texts)
    figure = Figure(figsize=(3.4 * across, 2.9 * down + 0.4), dpi=DPI, facecolor="white", layout="constrained")
    panels = iter(figure.subplots(down, across, squeeze=False).flat)
    if importances:
        axes = next(panels)
        names = list(importances)[::-1]
        axes.barh(range(len(names)), [importances[name] for name in names], color=POINT, height=0.6)
        axes.set_yticks(range(len(names)), [type_.drawable(_short(name, 26)) for name in names])
        axes.set_xlim(0, 1)
        axes.set_xlabel("importance")
        axes.set_title("What mattered", loc="left", fontsize=10)
        _style(axes, FAINT)
    for key in shown:
        axes = next(panels)
        numbers = [value for value in settings[key] if isinstance(value, int | float) and not isinstance(value, bool)]
        if len(numbers) == len(values):
            places: list[float] = list(map(float, numbers))
            if min(places) > 0 and max(places) / min(places) >= LOG_SPAN:
                axes.set_xscale("log")
                axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
                axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axes.xaxis.set_minor_formatter(NullFormatter())
            elif all(place.is_integer() for place in places):
                axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
        else:
            names = list(dict.fromkeys(map(label, settings[key])))
            places = [float(names.index(label(value))) for value in settings[key]]
            drawn = [type_.drawable(_short(name, LONGEST)) for name in names]
            slanted = {"rotation": 20, "ha": "right"} if sum(map(len, drawn)) > ROOM else {}
            axes.set_xticks(range(len(names)), drawn, **slanted)
            axes.set_xlim(-0.5, len(names) - 0.5)
        for is_stopped in (True, False):
            chosen = [index for index in range(len(values)) if stopped[index] == is_stopped and index != first]
            axes.scatter(
                [places[index] for index in chosen],
                [values[index] for index in chosen],
                s=22,
                marker="x" if is_stopped else "o",
                color=STOPPED if is_stopped else POINT,
                label="stopped" if is_stopped else "finished",
                zorder=2,
            )
        if first is not None:
            axes.scatter(
                [places[first]], [values[first]], s=40, marker="D", color=FIRST, label="as configured", zorder=3
            )
        axes.set_title(type_.drawable(_short(key, 34)), loc="left", fontsize=10)
        axes.set_ylabel(type_.drawable(metric))
        _style(axes, FAINT)
    for axes in panels:
        axes.set_visible(False)
    handles, labels = figure.axes[bool(importances)].get_legend_handles_labels()
    used = {"stopped": any(stopped), "as configured": first is not None}
    kept = [(handle, name) for handle, name in zip(handles, labels, strict=True) if used.get(name, True)]
    better = "larger is better" if larger_is_better else "smaller is better"
    figure.legend(
        [handle for handle, _ in kept],
        [name for _, name in kept],
        title=f"{type_.drawable(metric)}: {better}",
        loc="outside lower center",
        ncols=len(kept),
        frameon=False,
        fontsize=9,
        title_fontsize=9,
    )
    for axes in figure.axes:
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels()):
            text.set_color(INK)
            set_text(text, type_)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    return target


def _style(axes: Any, faint: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e9ed", linewidth=0.7, zorder=0)
    axes.set_axisbelow(True)
    axes.tick_params(colors=faint, labelsize=8)


def _short(text: str, longest: int) -> str:
    """A text, of which the end is kept if it is a key with dots, else the beginning."""
    if len(text) <= longest:
        return text
    return f"…{text[1 - longest :]}" if "." in text and "{" not in text else f"{text[: longest - 1]}…"
