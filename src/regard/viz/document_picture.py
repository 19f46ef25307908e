"""Classified documents as a matplotlib figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, Rectangle

from regard.errors import UnsupportedError
from regard.viz.colours import HUES, WARM, are_light, highlights
from regard.viz.fonts import Typesetter
from regard.viz.labels import shortened, visible, visible_words
from regard.viz.picture import DPI, FAINT, INK, write
from regard.viz.weighted import Emphasis, WeightedDocument, scale_labels

POINTS = 9.5
LINE, BETWEEN, GAP = 0.215, 0.075, 0.035
"""The height of a line, the space between sentences, and between words, in inches."""
WIDTH, MARGIN, STRIP = 7.2, 0.3, 0.14
NUMBER = 0.36
"""The width of a sentence's weight as a number, left of its bar, in inches."""
HEAD, FOOT = 0.36, 0.5
MOST_LINES = 1500
RIGHT, WRONG = "#17795e", "#b3402a"
UNKNOWN = "#d9a0a0"


def draw_documents(
    documents: Sequence[WeightedDocument],
    *,
    title: str | None = None,
    emphasis: Emphasis = "root",
    highest: float = 1.0,
) -> Figure:
    """The figure of documents, one below the other, with the scale of their colours at the end."""
    title = visible_words(title or "")
    type_ = Typesetter([title, *(text for item in documents for text in _texts(item))])
    measure = Measure(type_)
    beside = MARGIN + (NUMBER + STRIP + 0.1 if any(item.weights is not None for item in documents) else 0.0)
    lines = [[_wrapped(words, measure, type_, WIDTH - MARGIN - beside) for words in i.sentences] for i in documents]
    count = sum(max(len(rows), 1) for item in lines for rows in item)
    if count > MOST_LINES:
        raise UnsupportedError(
            f"The documents have {count:,} lines, more than the {MOST_LINES:,} of a picture; write .html."
        )
    heights = [HEAD + sum(max(len(rows), 1) * LINE + BETWEEN for rows in item) + 0.14 for item in lines]
    height = 0.22 + (0.36 if title else 0.0) + sum(heights) + FOOT
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    cold, warm = (ListedColormap(highlights(hues=hues)).with_extremes(bad=UNKNOWN) for hues in (HUES, WARM))
    top = 0.22
    if title:
        write(axes, MARGIN, top, title, type_, size=POINTS + 3, va="top")
        top += 0.36
    for item, rows, room in zip(documents, lines, heights, strict=True):
        _heading(axes, item, beside, top, type_, measure)
        y = top + HEAD
        for s, (wrapped, strengths) in enumerate(zip(rows, item.emphasis(emphasis), strict=True)):
            extent = max(len(wrapped), 1) * LINE
            if item.weights is not None:
                _bar(axes, float(item.weights[s]), beside - 0.1 - STRIP, y, extent, warm, type_)
            for row in wrapped:
                for place, label, index in row:
                    _word(axes, beside + place, y, label, measure(label), cold(strengths[index] / highest), type_)
                y += LINE
            y += BETWEEN + (0 if wrapped else LINE)
        top += room
    labels = scale_labels(documents, emphasis, highest)
    _scales(axes, beside, height - FOOT + 0.2, cold, warm, labels, type_)
    return figure


def _texts(item: WeightedDocument) -> Iterator[str]:
    yield from (visible(word) for words in item.sentences for word in words)
    yield from map(visible_words, (item.predicted or "", item.label or "", "✓✗√·"))


class Measure:
    """Measures the widths of labels, in inches."""

    def __init__(self, type_: Typesetter) -> None:
        self.renderer = FigureCanvasAgg(Figure(dpi=72)).get_renderer()  # type: ignore[no-untyped-call]
        self.font = FontProperties(family=type_.families, size=POINTS)
        self.widths: dict[str, float] = {}

    def __call__(self, label: str) -> float:
        if label not in self.widths:
            self.widths[label] = self.renderer.get_text_width_height_descent(label, self.font, False)[0] / 72
        return self.widths[label]


Row = list[tuple[float, str, int]]
"""The place of each word from the left, in inches, its label and its number in the sentence."""


def _wrapped(words: Sequence[str], measure: Measure, type_: Typesetter, room: float) -> list[Row]:
    rows: list[Row] = []
    x = room
    for index, label in enumerate(type_.labels(words) or ()):
        label = shortened(label, 48)
        width = measure(label) + 2 * GAP
        if x + width > room:
            rows.append([])
            x = 0.0
        rows[-1].append((x, label, index))
        x += width + GAP
    return rows


def _word(
    axes: Axes, x: float, y: float, label: str, width: float, colour: tuple[float, ...], type_: Typesetter
) -> None:
    box = FancyBboxPatch((x, y + 0.015), width + 2 * GAP, LINE - 0.03, boxstyle="round,pad=0,rounding_size=0.035")
    box.set(facecolor=colour, edgecolor="none")
    axes.add_artist(box)
    write(axes, x + GAP, y + LINE / 2, label, type_, va="center_baseline", colour=_ink(colour), size=POINTS)


def _bar(axes: Axes, weight: float, x: float, y: float, height: float, warm: Colormap, type_: Typesetter) -> None:
    colour = warm(min(weight, 1.0)) if np.isfinite(weight) else UNKNOWN
    bar = Rectangle((x, y + 0.01), STRIP, height - 0.02, facecolor=colour, edgecolor="#e3d8d0", linewidth=0.5)
    axes.add_artist(bar)
    number = f"{weight:.2f}" if np.isfinite(weight) else "–"
    write(
        axes, x - 0.07, y + LINE / 2, number, type_, va="center_baseline", ha="right", colour=FAINT, size=POINTS - 2.5
    )


def _heading(axes: Axes, item: WeightedDocument, x: float, y: float, type_: Typesetter, measure: Measure) -> None:
    known = item.predicted is not None and item.label is not None
    right = item.predicted == item.label
    parts: list[tuple[str, str]] = []
    if item.predicted is not None:
        parts += [("predicted", FAINT), (item.predicted, (RIGHT if right else WRONG) if known else INK)]
    if item.probability is not None:
        parts.append((f"{item.probability:.2f}", FAINT))
    if item.label is not None:
        parts += [("· true" if parts else "true", FAINT), (item.label, INK)]
    if known:
        parts.append(("✓" if right else "✗", RIGHT if right else WRONG))
    for text, colour in parts:
        shown = shortened(visible_words(text), 40)
        write(axes, x + GAP, y + 0.1, shown, type_, va="center_baseline", colour=colour, size=POINTS)
        x += measure(type_.drawable(shown)) + 0.07


def _scales(
    axes: Axes, x: float, y: float, cold: Colormap, warm: Colormap, labels: Sequence[str], type_: Typesetter
) -> None:
    x += GAP
    for colours, label in zip((cold, warm), labels):
        for i in range(40):
            axes.add_artist(Rectangle((x + i * 0.02, y - 0.05), 0.0205, 0.1, facecolor=colours(i / 39), linewidth=0))
        axes.add_artist(Rectangle((x, y - 0.05), 0.8, 0.1, fill=False, edgecolor="#c9cfd6", linewidth=0.5))
        write(axes, x + 0.88, y, label, type_, va="center_baseline", colour=FAINT, size=POINTS - 2)
        x += 3.4


def _ink(colour: Sequence[float]) -> str:
    """Black or white, whichever is readable on the colour."""
    return INK if are_light(np.array([colour[:3]]))[0] else "white"
