"""How cost grows with each size of a case, and pictures of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from speed.case import OURS, PLAIN
from speed.cases import CASES
from speed.clock import Quartiles, turns


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """A size of a case that grows while the others are fixed.

    Args:
        case: the name of the case.
        letter: the size that grows.
        values: its values.
        others: all other sizes.
    """

    case: str
    letter: str
    values: Sequence[int]
    others: Mapping[str, int]


_ENERGIES = {"B": 8, "T": 40, "S": 50, "D": 256}
_MODEL = {"B": 16, "T": 20, "S": 20, "E": 128, "D": 256}
_DECODER = {**_MODEL, "M": 256}
_BEAM = {**_MODEL, "K": 5, "N": 5000}

SWEEPS = (
    Sweep("additive", "T", (10, 20, 40, 80, 160), _ENERGIES),
    Sweep("additive", "S", (10, 20, 50, 100, 200), _ENERGIES),
    Sweep("additive", "D", (64, 128, 256, 512, 1024), _ENERGIES),
    Sweep("additive", "B", (1, 4, 8, 16, 32), _ENERGIES),
    Sweep("decoder", "T", (5, 10, 20, 40, 80), _DECODER),
    Sweep("decoder", "S", (10, 20, 50, 100, 200), _DECODER),
    Sweep("decoder", "D", (64, 128, 256, 512), _DECODER),
    Sweep("decoder", "B", (1, 4, 16, 64), _DECODER),
    Sweep("beam", "K", (2, 5, 10, 20), _BEAM),
    Sweep("beam", "T", (10, 20, 40, 80), _BEAM),
    Sweep("beam", "S", (10, 20, 50, 100), _BEAM),
    Sweep("beam", "B", (1, 4, 16, 64), _BEAM),
)
QUICK = (Sweep("additive", "T", (5, 10), {**_ENERGIES, "D": 64}),)


def measure(sweep: Sweep, *, rounds: int, turn: float) -> dict[str, dict[int, Quartiles]]:
    """Seconds of our and of the plain way, by the value of the size."""
    quartiles: dict[str, dict[int, Quartiles]] = {OURS: {}, PLAIN: {}}
    for value in sweep.values:
        contest = CASES[sweep.case].contest(torch.float32, {**sweep.others, sweep.letter: value})
        for side, seconds in turns({name: contest.sides[name] for name in quartiles}, rounds=rounds, turn=turn).items():
            quartiles[side][value] = Quartiles.of(seconds)
    return quartiles


def draw(path: Path, title: str, panels: Mapping[Sweep, Mapping[str, Mapping[int, Quartiles]]]) -> None:
    """Draws the sweeps of one case into a .svg or .png file: a panel each, logarithmic axes, quartiles as a band."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    from regard.viz.curves import MARKERS, STROKES

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
