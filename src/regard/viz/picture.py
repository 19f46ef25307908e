"""An alignment as a matplotlib figure: source across, its labels on top, target downwards.

No module of this package uses pyplot or rcParams, so pictures may be drawn in several threads and without a display.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from regard.viz.aligned import PREDICTION, Aligned, Weights
from regard.viz.colours import ramp
from regard.viz.fonts import Typesetter
from regard.viz.labels import END_SYMBOL, shortened, visible, visible_words
from regard.viz.layout import POINTS, SINGLE, Panel, arrange, width_of
from regard.viz.sheet import GAP, Sheet, is_crowded, sheet, without_heads

DPI = 150
GRID_FROM = 0.12
"""Cells of at least this size, in inches, are separated by thin lines."""
INK, FAINT, FRAME = "#1b1f24", "#6b7480", "#9aa3ad"
PROMPT = "#b3541e"
NARROWEST = 4.0
"""The width that titles and captions have at least, in inches."""


def draw(items: Sequence[Aligned], *, title: str | None = None, highest: float = 1.0, largest: bool = False) -> Figure:
    """The figure of one or more alignments on one page.

    If one has many heads, they are shown as small multiples below the main picture.

    Args:
        highest: the weight of the darkest colour. The colour bar has an arrow if there are weights above it.
        largest: whether `highest` is the largest weight, which the colour bar then notes.
    """
    title = visible_words(title or "")
    type_ = Typesetter([*(text for item in items for text in _texts(item)), title])
    items = [
        replace(item, source_tokens=type_.labels(item.source_tokens), tokens=type_.labels(item.tokens))
        for item in items
    ]
    heads = sheet(items) if is_crowded(items) else None
    grid = arrange(items if heads is None else [without_heads(item) for item in items])
    panels, width, height = grid.panels, grid.width, grid.height
    caption = _caption(items, panels, type_)
    title_lines = _lines(title, max(width, NARROWEST), POINTS + 3)
    head = (0.2 if len(panels) == 1 else 0.0) + (0.14 + 0.18 * len(title_lines) if title_lines else 0.0)
    lower, beside = head + height + 0.45, width + 0.55
    if heads is not None:
        width = max(width, heads.margin + heads.size[0])
        height += heads.size[1] + 0.6
    page = (width + 1.3, height + head + 0.5)
    figure = Figure(figsize=page, dpi=DPI, facecolor="white")
    colours = ListedColormap(ramp()).with_extremes(bad="#d9a0a0")
    scale = Normalize(0.0, highest)
    shade = ScalarMappable(scale, colours)
    for panel in panels:
        box = (panel.left + 0.35, panel.top + head, panel.across.length, panel.down.length)
        axes = figure.add_axes(_within(page, *box))
        _matrix(axes, panel, colours, scale)
        _ticks(axes, panel, type_)
    for heading in grid.headings:
        words = shortened(visible_words(heading.text), int(max(width, SINGLE) / width_of("x")))
        place = (heading.left + 0.35) / page[0], 1 - (heading.top + head) / page[1]
        set_text(figure.text(*place, type_.drawable(words), fontsize=POINTS, color=INK, va="top"), type_)
    first = panels[0]
    if heads is not None:
        axes = figure.add_axes(_within(page, 0.35 + heads.margin, lower, *heads.size))
        _small_multiples(axes, heads, shade, type_)
    bar_length = min(max(first.down.length, 1.2), 3.0)
    bar_box = _within(page, beside, first.top + head, 0.12, bar_length)
    weights = (weights for item in items for _, weights in item.panels())
    bar = colour_bar(figure, bar_box, shade, weights, 5, POINTS - 1)
    bar.set_ylabel("weight, up to the largest" if largest else "weight", fontsize=POINTS - 1, color=FAINT)
    if len(panels) == 1:
        figure.axes[0].set_xlabel(type_.drawable(items[0].sides[0]), fontsize=POINTS, color=FAINT)
        figure.axes[0].xaxis.set_label_position("top")
        figure.axes[0].set_ylabel(type_.drawable(items[0].sides[1]), fontsize=POINTS, color=FAINT)
    left = (first.left + 0.35) / page[0]
    if title:
        words = type_.drawable("\n".join(title_lines))
        set_text(figure.text(left, 1.0, words, fontsize=POINTS + 3, color=INK, va="top"), type_)
    if caption:
        top = max(page[1] - 0.28, first.top + head + bar_length + 0.12)  # below the colour bar, too
        words = type_.drawable("\n".join(_lines(caption, max(width, NARROWEST), POINTS - 1)))
        set_text(figure.text(left, 1 - top / page[1], words, fontsize=POINTS - 1, color=FAINT, va="top"), type_)
    return figure


def _lines(text: str, width: float, points: float) -> list[str]:
    """A text in lines of at most a width in inches; what does not fit three lines is cut."""
    columns = int(width / width_of("x") * POINTS / points)
    return textwrap.wrap(text, columns, max_lines=3, placeholder=" …")


def _within(
    page: tuple[float, float], left: float, top: float, width: float, height: float
) -> tuple[float, float, float, float]:
    """Inches from the top left as matplotlib's fractions from the bottom left."""
    return left / page[0], 1 - (top + height) / page[1], width / page[0], height / page[1]


def _matrix(axes: Axes, panel: Panel, colours: Colormap, scale: Normalize) -> None:
    steps, positions = panel.weights.shape
    extent = (-0.5, max(positions, 1) - 0.5, max(steps, 1) - 0.5, -0.5)
    if panel.weights.size:
        pixels = pooled(panel.weights, int(panel.down.length * DPI), int(panel.across.length * DPI))
        image = axes.imshow(pixels, cmap=colours, norm=scale, aspect="auto", interpolation="nearest")
        image.set_extent(extent)
    axes.set(xlim=extent[:2], ylim=extent[2:])
    if min(panel.across.length / max(positions, 1), panel.down.length / max(steps, 1)) >= GRID_FROM:
        # not minor ticks: matplotlib makes five artists of each
        right, bottom = extent[1:3]
        lines = [[(x, -0.5), (x, bottom)] for x in np.arange(1, positions) - 0.5]
        lines += [[(-0.5, y), (right, y)] for y in np.arange(1, steps) - 0.5]
        axes.add_collection(LineCollection(lines, colors="#e6e9ed", linewidths=0.5), autolim=False)
    if panel.prompt is not None:
        column, row = panel.prompt
        lines = [[(column - 0.5, -0.5), (column - 0.5, extent[2])], [(-0.5, row - 0.5), (extent[1], row - 0.5)]]
        axes.add_collection(LineCollection(lines, colors=PROMPT, linewidths=0.9, linestyles="dashed"), autolim=False)
    axes.spines[:].set(color=FRAME, linewidth=0.6)


def _small_multiples(axes: Axes, heads: Sheet, shade: ScalarMappable, type_: Typesetter) -> None:
    """Draws all small multiples into one image, since hundreds of axes would take many seconds."""
    (width, height), (right, bottom) = heads.cell, heads.size
    tall, wide, gap = (round(inches * DPI) for inches in (height, width, GAP))
    canvas = np.ones((len(heads.rows) * (tall + gap) - gap, heads.num_columns * (wide + gap) - gap, 4))
    for i, (label, row) in enumerate(heads.rows):
        name = axes.text(-0.08, i * (height + GAP) + height / 2, type_.drawable(label), ha="right", va="center")
        set_text(name, type_)
        name.set(fontsize=POINTS - 2, color=INK)
        for j, weights in enumerate(row):
            top, left = i * (tall + gap), j * (wide + gap)
            canvas[top : top + tall, left : left + wide] = shade.to_rgba(_stretched(weights, tall, wide))
            frame = Rectangle((j * (width + GAP), i * (height + GAP)), width, height, fill=False)
            frame.set(edgecolor=FRAME, linewidth=0.4, clip_on=False)
            axes.add_patch(frame)
    image = axes.imshow(canvas, aspect="auto", interpolation="nearest")
    image.set_extent((0, right, bottom, 0))
    axes.set(xlim=(0, right), ylim=(bottom, 0))
    axes.set_axis_off()
    if heads.num_columns > 1:
        for j in range(heads.num_columns):
            number = axes.text(j * (width + GAP) + width / 2, -0.05, f"head {j}" if j == 0 else f"{j}", ha="center")
            number.set(va="bottom", fontsize=POINTS - 2, color=FAINT)


def _stretched(weights: Weights, rows: int, columns: int) -> Weights:
    """Weights as exactly `rows` by `columns` dots: maxima where they are reduced, repeated where they are enlarged."""
    if not weights.size:
        return np.zeros((rows, columns))
    small = pooled(weights, rows, columns)
    y, x = (np.arange(size) * count // size for size, count in zip((rows, columns), small.shape, strict=True))
    return small[np.ix_(y, x)]


def pooled(weights: Weights, rows: int, columns: int) -> Weights:
    """Weights reduced to at most `rows` by `columns` maxima, so that no peak is lost."""
    for axis, most in ((-2, rows), (-1, columns)):
        size = weights.shape[axis]
        if size > most:
            starts = np.arange(most) * size // most
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights


def _ticks(axes: Axes, panel: Panel, type_: Typesetter) -> None:
    axes.tick_params(which="both", length=0, pad=3, labelsize=POINTS, labelcolor=INK)
    axes.xaxis.tick_top()
    for axis, side in ((axes.xaxis, panel.across), (axes.yaxis, panel.down)):
        axis.set_ticks(list(side.ticks), list(side.ticks.values()))
        for label in axis.get_ticklabels():
            set_text(label, type_)
    if panel.across.slanted:
        for label in axes.get_xticklabels():
            label.set(rotation=45, ha="left", va="bottom", rotation_mode="anchor")
    if panel.name:
        name = axes.annotate(
            type_.drawable(panel.name), (0, 0), (0, -4), xycoords="axes fraction", textcoords="offset points", va="top"
        )
        name.set(fontsize=POINTS, color=INK)
        set_text(name, type_)


def set_text(text: Text, type_: Typesetter) -> None:
    """Makes a text literal, without mathematics between $ signs, and sets its fonts."""
    text.set_parse_math(False)
    text.set_usetex(False)
    text.set_fontfamily(type_.families)


def write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    type_: Typesetter,
    *,
    size: float = POINTS,
    colour: str | tuple[float, ...] = INK,
    va: str = "baseline",
    ha: str = "left",
) -> None:
    """Writes a text at a place of the axes."""
    set_text(axes.text(x, y, type_.drawable(text), fontsize=size, color=colour, va=va, ha=ha), type_)


def colour_bar(
    figure: Figure,
    box: tuple[float, float, float, float],
    shade: ScalarMappable,
    weights: Iterable[Weights],
    num_ticks: int,
    points: float,
) -> Axes:
    """Draws a colour bar, with an arrow at an end beyond which there are weights.

    Args:
        box: left, bottom, width and height, in fractions of the figure.
        weights: all weights that the bar is for.
        points: the size of its numbers.
    """
    highest, finite = shade.get_clim()[1], [array[np.isfinite(array)] for array in weights]
    over = any((array > highest * (1 + 1e-6)).any() for array in finite)
    under = any((array < 0).any() for array in finite)
    extend: Any = {(0, 0): "neither", (0, 1): "max", (1, 0): "min", (1, 1): "both"}[under, over]
    axes = figure.add_axes(box)
    bar = figure.colorbar(shade, cax=axes, extend=extend, ticks=np.linspace(0, highest, num_ticks))
    bar.outline.set(edgecolor=FRAME, linewidth=0.6)
    axes.tick_params(length=2, width=0.5, labelsize=points, labelcolor=FAINT, color=FRAME)
    axes.yaxis.set_major_formatter(lambda weight, _: f"{weight:.3g}")
    return axes


def _texts(item: Aligned) -> Iterator[str]:
    """All texts of an alignment that may be drawn."""
    yield from map(visible, (*(item.source_tokens or ()), *(item.tokens or ())))
    yield from map(visible_words, (item.text or "", *item.alignments))


def _caption(items: Sequence[Aligned], panels: Sequence[Panel], type_: Typesetter) -> str:
    """The caption: notes about the picture, in one line."""
    across, down = items[0].sides
    words = [f"{across} across, {down} down"] if len(panels) > 1 else []
    if any(item.alignments for item in items):
        words.append(f"{PREDICTION}: the alignment that predictions report")
    if any(item.prompt is not None for item in items):
        words.append("dashed: the end of the prompt")
    ticks = [label for panel in panels for side in (panel.across, panel.down) for label in side.ticks.values()]
    if not type_.stand_ins.isdisjoint(ticks):
        words.append("U+…, #n: a character, the token n, for which no font is installed")
    for name, side in ((across, "across"), (down, "down")):
        most = max((getattr(panel, side).stride for panel in panels), default=1)
        if most > 1:
            words.append(f"1 in {most} {name} labels shown")
    if any(p.weights.shape[0] > p.down.length * DPI or p.weights.shape[1] > p.across.length * DPI for p in panels):
        words.append("each dot is the largest weight of the cells under it")
    left_out = [item.left_out for item in items if item.left_out is not None]
    if left_out:
        words.append(
            f"{END_SYMBOL} left out: {max(left_out):.1%} of the weight{' at most' * (len(left_out) > 1)} lay on it"
        )
    if any(not np.isfinite(weights).all() for item in items for _, weights in item.panels()):
        words.append("red: not a finite number")
    return " · ".join(words)
