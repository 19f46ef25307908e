"""A spoken sentence as a matplotlib figure: spectrogram, alignment and stop probability, from top to bottom."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.viz.aligned_speech import AlignedSpeech
from regard.viz.colours import WARM, ramp
from regard.viz.fonts import Typesetter
from regard.viz.labels import shortened, stride, visible_words
from regard.viz.picture import DPI, FAINT, INK, colour_bar, set_text

RULE, REFERENCE, STOP, UNKNOWN = "#d0d7de", "#d55e00", "#17795e", "#d9a0a0"
PER_SECOND, NARROWEST, WIDEST = 2.2, 5.5, 16.0
"""Inches of a second of speech, and the least and the greatest width of a panel."""
MEL, STRIP, ROW, LOWEST, TALLEST, GAP = 1.7, 0.7, 0.16, 1.6, 8.0, 0.14
"""Heights in inches: spectrogram, stop probability, a symbol, the least and the greatest of an alignment, a gap."""
ONE_COLUMN, HIGHEST = 10.0, 20.0
"""The greatest heights of an alignment whose labels need more room, in one column and in two, in inches."""
LABEL, SIGN, SPACE, WIDEST_COLUMN = 0.13, 0.075, 0.85, 0.5
"""The height of a label, the width of a character, the room for the scale of colours, and the greatest width of labels
that may stand in two columns, in inches."""
TICK, PAD, POINTS = 3.0, 3.0, 72.0
"""The length of a tick and the gap between it and its label, in points, of which an inch has 72."""


def draw_speech(sentence: AlignedSpeech, *, title: str | None = None, highest: float = 1.0) -> Figure:
    """The figure of a sentence."""
    title = visible_words(sentence.text if title is None else title)
    note = visible_words(sentence.note)
    type_ = Typesetter([*sentence.symbols, title, note])
    labels = [shortened(label, 14) for label in type_.labels(sentence.symbols) or ()]
    wide = float(np.clip(PER_SECOND * sentence.seconds, NARROWEST, WIDEST))
    tall = float(np.clip(ROW * len(labels), LOWEST, TALLEST))
    column = 0.06 + SIGN * max(map(len, labels))
    columns = 2 if LABEL * len(labels) > ONE_COLUMN and column <= WIDEST_COLUMN else 1
    tall = min(max(tall, LABEL * len(labels) / columns), HIGHEST)
    heights = [MEL, tall] + [STRIP] * (sentence.stop is not None)
    left = 0.5 + max(0.3, SIGN * max(map(len, labels))) + (columns - 1) * column
    head, foot = 0.12 + 0.3 * bool(title) + 0.22 * bool(note), 0.45
    size = (left + wide + SPACE, head + sum(heights) + GAP * (len(heights) - 1) + foot)
    figure = Figure(figsize=size, dpi=DPI, facecolor="white")
    panels: list[Axes] = []
    top = head
    for height in heights:
        box = (left / size[0], 1 - (top + height) / size[1], wide / size[0], height / size[1])
        panels.append(figure.add_axes(box, sharex=panels[0] if panels else None))
        top += height + GAP
    _spectrogram(panels[0], sentence)
    shade = _alignment(panels[1], sentence, highest)
    every = stride(columns * tall / len(labels), LABEL)
    panels[1].set_yticks(np.arange(0, len(labels), every), labels[::every])
    for tick in panels[1].get_yticklabels():
        set_text(tick, type_)
    if sentence.stop is not None:
        _stop(panels[2], sentence)
    for axes, name in zip(panels, ("mel filter", "symbol", "stop"), strict=False):
        axes.set_xlim(0.0, sentence.seconds)
        axes.set_ylabel(name, fontsize=9, color=INK)
        axes.yaxis.set_label_coords(-(left - 0.24) / wide, 0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(RULE)
        last = axes is panels[-1]
        axes.tick_params(colors=FAINT, labelsize=8, length=3, color=RULE, labelbottom=last)
    panels[1].tick_params(axis="y", labelcolor=INK)
    _in_columns(panels[1], columns, POINTS * column)
    panels[-1].set_xlabel("seconds", fontsize=9, color=INK)
    panel = panels[1].get_position()
    bar_box = (panel.x1 + 0.15 / size[0], panel.y1 - 1.45 / size[1], 0.1 / size[0], 1.2 / size[1])
    bar = colour_bar(figure, bar_box, shade, [sentence.alignment], 3, 7.5)
    bar.set_title("weight", fontsize=7.5, color=FAINT, loc="left", pad=6)
    room = size[0] - left - 0.1
    title, note = shortened(title, int(room / 0.1)), shortened(note, int(room / 0.078))
    for text, at, points, colour in ((title, head - 0.2 - 0.22 * bool(note), 11, INK), (note, head - 0.16, 8.5, FAINT)):
        heading = figure.text(left / size[0], 1 - at / size[1], type_.drawable(text), va="center", fontsize=points)
        heading.set_color(colour)
        set_text(heading, type_)
    return figure


def _spectrogram(axes: Axes, sentence: AlignedSpeech) -> None:
    """Time across, the lowest filter at the bottom, with the boundaries of labels."""
    levels = sentence.levels
    colours = ListedColormap(ramp(hues=WARM)).with_extremes(bad=UNKNOWN)
    rows = np.arange(levels.shape[1] + 1) - 0.5
    axes.pcolormesh(sentence.frame_edges, rows, levels.T, cmap=colours, vmin=0.0, vmax=1.0, rasterized=True)
    axes.locator_params(axis="y", nbins=4, integer=True)
    if sentence.labels is not None:
        heard = sentence.labels.ends > sentence.labels.starts
        bounds = np.unique(np.concatenate([sentence.labels.starts[heard], sentence.labels.ends[heard]]))
        axes.vlines(bounds, rows[0], rows[-1], color=REFERENCE, linewidth=0.6, linestyle=(0, (3, 2)))
    axes.set_ylim(rows[0], rows[-1])


def _alignment(axes: Axes, sentence: AlignedSpeech, highest: float) -> Any:
    """Time across, a row for each symbol, the first one on top; labels are outlined."""
    num_symbols = len(sentence.symbols)
    rows = np.arange(num_symbols + 1) - 0.5
    mesh = axes.pcolormesh(
        sentence.step_edges, rows, np.asarray(sentence.alignment).T, vmin=0.0, vmax=highest, rasterized=True,
        cmap=ListedColormap(ramp()).with_extremes(bad=UNKNOWN),
    )  # fmt: skip
    if sentence.labels is not None:
        boxes = [
            Rectangle((start, row - 0.5), end - start, 1.0)
            for row, (start, end) in enumerate(zip(sentence.labels.starts, sentence.labels.ends, strict=True))
            if end > start
        ]
        outlines = PatchCollection(boxes, facecolor="none", edgecolor=REFERENCE, linewidth=0.9)
        outlines.set_label("reference")
        axes.add_collection(outlines, autolim=False)
        axes.legend(
            handles=[Rectangle((0, 0), 1, 1, facecolor="none", edgecolor=REFERENCE, label="reference")],
            loc="upper right", frameon=False, fontsize=8, labelcolor=INK, borderpad=0.2,
        )  # fmt: skip
    axes.set_ylim(num_symbols - 0.5, -0.5)
    return mesh


def _in_columns(axes: Axes, columns: int, width: float) -> None:
    """Puts the labels of rows that are lower than a label into several columns, with longer ticks."""
    for number, tick in enumerate(axes.yaxis.get_major_ticks()):
        longer = number % columns * width
        tick.tick1line.set_markersize(TICK + longer)
        tick.set_pad(PAD + longer)


def _stop(axes: Axes, sentence: AlignedSpeech) -> None:
    """The stop probability of each frame, with a line at one half."""
    axes.stairs(np.asarray(sentence.stop, np.float64), sentence.frame_edges, color=STOP, linewidth=1.3, baseline=None)
    axes.axhline(0.5, color=FAINT, linewidth=0.6, linestyle=(0, (2, 2)))
    axes.set_ylim(-0.04, 1.04)
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
