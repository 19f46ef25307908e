"""Pictures of growth: a panel for each size, with logarithmic axes and the quartiles as a band."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from regard.bench.clock import Quartiles
from regard.bench.growth import Sweep
from regard.viz.curves import MARKERS, STROKES

Grown = Mapping[str, Mapping[int, Quartiles]]


def draw(path: Path, title: str, panels: Mapping[Sweep, Grown]) -> None:
    """Draws the sweeps of one case side by side into a .svg or .png file."""
    figure = Figure(figsize=(2.9 * len(panels), 3.0), facecolor="white", layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, (sweep, grown) in zip(axes, panels.items(), strict=True):
        for number, (side, quartiles) in enumerate(grown.items()):
            values, color = list(quartiles), STROKES[number]
            lows, medians, highs = (
                [1000 * getattr(each, field) for each in quartiles.values()] for field in ("low", "median", "high")
            )
            panel.plot(values, medians, marker=MARKERS[number], markersize=4, color=color, label=side)
            panel.fill_between(values, lows, highs, color=color, alpha=0.2, linewidth=0)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xticks(sweep.values)
        panel.xaxis.set_major_formatter(ScalarFormatter())
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_xlabel(sweep.letter)
        panel.grid(color="#e6e9ed", linewidth=0.7)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("milliseconds")
    axes[0].legend(frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
