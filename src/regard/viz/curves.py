"""A line chart of a few curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.viz.aligned import as_numbers
from regard.viz.files import PICTURES, suffix_of

STROKES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, which can be distinguished with any colour vision."""
MARKERS = "osD^vPX"


def plot_curves(
    path: str | Path,
    curves: Mapping[str, tuple[Any, Any]],
    *,
    x_label: str,
    y_label: str,
    title: str | None = None,
) -> Path:
    """Draws curves into a .png, .svg or .pdf file, for example errors against the lengths of sentences.

    Args:
        curves: (x, y) by name, two sequences or tensors of the same length; points that are not finite are left out.

    Raises:
        RegardError: for another suffix, no curve, or x and y of different lengths.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from regard.viz.fonts import Typesetter
    from regard.viz.picture import DPI, FAINT, INK, set_text

    target = Path(path)
    suffix_of(target, PICTURES)
    if not curves:
        raise RegardError("curves is empty: give at least one name with its (x, y).")
    type_ = Typesetter([*curves, x_label, y_label, title or ""])
    figure = Figure(figsize=(6.0, 3.8), dpi=DPI, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    strokes, whole = [], True
    for index, (name, (x, y)) in enumerate(curves.items()):
        x, y = as_numbers(x), as_numbers(y)
        if x.shape != y.shape or x.ndim != 1:
            raise RegardError(f"curves[{name!r}]: x and y must have the same length; got {x.shape}, {y.shape}.")
        (stroke,) = axes.plot(x, y, marker=MARKERS[index % len(MARKERS)], markersize=4, linewidth=1.6)
        stroke.set_color(STROKES[index % len(STROKES)])
        strokes.append(stroke)
        whole = whole and bool((x == x.round()).all())
    if whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(type_.drawable(x_label))
    axes.set_ylabel(type_.drawable(y_label))
    axes.set_title(type_.drawable(title or ""), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e9ed", linewidth=0.7)
    axes.tick_params(colors=FAINT)
    legend = axes.legend(strokes, [type_.drawable(name) for name in curves], frameon=False)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title, *axes.texts, *legend.get_texts()):
        text.set_color(INK)
        set_text(text, type_)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    return target
