"""Handwriting in the colours of the recognised symbols, as a matplotlib figure."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from regard.image.strokes import Strokes
from regard.viz.captioned_image import CaptionedImage
from regard.viz.colours import distinct, hexadecimal
from regard.viz.document_picture import Measure
from regard.viz.fonts import Typesetter
from regard.viz.labels import shortened, visible_words
from regard.viz.picture import DPI, FAINT, INK, write

WIDEST, TALLEST, MARGIN, SCALE = 10.0, 6.0, 0.3, 1 / 48
"""The greatest width and height of the handwriting and the margin, and the size of a pixel of a small image, in
inches."""
POINTS, NUMBER = 10.0, 6.0
LINE, GAP, TITLE, NOTE = 0.24, 0.09, 0.34, 0.24
"""Heights in inches: a line of symbols, the gap between symbols, the title, a line below."""
UNREAD = "#aab1ba"
CLEAR = 0.5
"""A note explains pale strokes if one has less certainty than this."""
PEN = 2.0


def draw_strokes(
    strokes: Strokes,
    caption: CaptionedImage,
    owners: NDArray[np.int64],
    certainties: NDArray[np.float64],
    *,
    title: str | None = None,
) -> Figure:
    """The figure of strokes.

    Args:
        owners: (strokes,) the symbol of each stroke, -1 for none.
        certainties: (strokes,) from 0 to 1, the strength of the colour of each stroke.
        title: as in `plot_strokes`.
    """
    heading = visible_words(caption.text if title is None else title)
    type_ = Typesetter([*caption.tokens, heading])
    labels = [shortened(label, 24) for label in type_.labels(caption.tokens) or ()]
    # colours and numbers in the order of the text, of those that have strokes only: fewer are easier to tell apart
    shown = sorted(set(owners[owners >= 0].tolist()))
    colours = dict(zip(shown, hexadecimal(distinct(len(shown))), strict=True))
    numbers = {symbol: str(index) for index, symbol in enumerate(shown, start=1)}

    (height, width), measure = caption.size, Measure(type_)
    scale = min(SCALE, WIDEST / width, TALLEST / height)
    wide, tall = width * scale, height * scale
    page = max(wide, 4.2) + 2 * MARGIN
    places, lines = _wrapped(labels, numbers, measure, page - 2 * MARGIN)
    top = MARGIN + TITLE * bool(heading)
    notes = ["paler: other symbols attended to the stroke, too"] * bool((certainties[owners >= 0] < CLEAR).any())
    notes += ["grey: no stroke"] * (len(shown) < len(labels))
    notes += ["grey strokes: no symbol attended to them more than to the rest"] * (-1 in owners)
    foot = MARGIN + NOTE * bool(notes)
    figure = Figure(figsize=(page, top + tall + 0.3 + lines * LINE + foot), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    bottom = figure.get_figheight()
    axes.set(xlim=(0, page), ylim=(bottom, 0))
    if heading:
        room = int((page - 2 * MARGIN) / 0.1)
        write(axes, MARGIN, MARGIN, shortened(heading, room), type_, size=POINTS + 1, colour=INK, va="top")

    corner = np.array([MARGIN, top])
    drawn = [corner + np.asarray(line, np.float64) * scale for line in strokes.lines]
    grey = np.array(to_rgb(UNREAD))
    of_stroke = [
        grey + np.sqrt(certainty) * (np.array(to_rgb(colours[owner])) - grey) if owner >= 0 else grey
        for owner, certainty in zip(owners.tolist(), certainties, strict=True)
    ]
    # a dot is a line of no length, which round ends make visible
    segments = [np.repeat(line, 2, axis=0) if len(line) == 1 else line for line in drawn]
    axes.add_collection(LineCollection(segments, colors=of_stroke, linewidths=PEN, capstyle="round"), autolim=False)
    for symbol in shown:
        points = np.concatenate([line for line, owner in zip(drawn, owners, strict=True) if owner == symbol])
        x, y = points[points.sum(axis=1).argmin()]  # the upper left end
        place = axes.text(x - 0.02, y - 0.02, numbers[symbol], fontsize=NUMBER, color=colours[symbol], ha="right")
        place.set(va="bottom", path_effects=[withStroke(linewidth=1.6, foreground="white")])
    y = top + tall + 0.3
    for symbol, (x, row) in enumerate(places):
        colour = colours.get(symbol, UNREAD)
        write(axes, x + MARGIN, y + row * LINE, labels[symbol], type_, size=POINTS, colour=colour)
        if symbol in numbers:
            right = x + MARGIN + _width(labels[symbol], measure) + 0.015
            write(axes, right, y + row * LINE + 0.04, numbers[symbol], type_, size=NUMBER, colour=colour)
    if notes:
        write(axes, MARGIN, bottom - MARGIN, "; ".join(notes), type_, size=POINTS - 3, colour=FAINT)
    return figure


def _wrapped(
    labels: list[str], numbers: dict[int, str], measure: Measure, room: float
) -> tuple[list[tuple[float, int]], int]:
    """Place from the left and line of each label, and the number of lines."""
    places: list[tuple[float, int]] = []
    x, row = 0.0, 0
    for index, label in enumerate(labels):
        width = _width(label, measure) + 0.055 * len(numbers.get(index, ""))
        if x and x + width > room:
            x, row = 0.0, row + 1
        places.append((x, row))
        x += width + GAP
    return places, row + 1 if labels else 0


def _width(label: str, measure: Measure) -> float:
    """In inches; `Measure` measures letters of 9.5 points."""
    return measure(label) * POINTS / 9.5
