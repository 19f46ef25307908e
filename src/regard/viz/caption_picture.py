"""A captioned image as matplotlib figures: a panel for each word with its map over the dimmed image.

All panels are parts of one image, since hundreds of axes would take many seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from regard.errors import UnsupportedError
from regard.viz.captioned_image import CaptionedImage
from regard.viz.captions import Highest, scales
from regard.viz.fonts import Typesetter
from regard.viz.labels import shortened, visible_words
from regard.viz.layout import POINTS, width_of
from regard.viz.maps import UNKNOWN, cells, grey_of, resized, smoothed, tinted, tints
from regard.viz.picture import DPI, FAINT, INK, write

PAGE, PAPER, TALLEST = 11.0, 11.0, 200.0
"""The greatest width of all panels in a row, the height of a page of paper, and that of a picture, in inches."""
AREA, NARROWEST, HIGHEST = 2.4, 0.76, 3.5
"""The area of a panel in square inches, its least width and its greatest height in inches."""
FEW, SMALLEST = 24, 0.4
"""Up to this number, panels have that area; more are smaller, down to this share of it."""
LINE, GAP, MARGIN = 0.2, 0.16, 0.24
"""The height of the words above a row of panels, the gap between panels, and the margin, in inches: whole dots."""
TITLE, NOTE, FOOT = 0.34, 0.22, 0.42


@dataclass(frozen=True)
class Grid:
    """The places of the panels, in inches."""

    width: float
    height: float
    columns: int
    rows: int

    @property
    def step(self) -> tuple[float, float]:
        """The distances between the left edges of two panels, and between two rows."""
        return max(self.width, NARROWEST) + GAP, LINE + self.height + GAP

    @classmethod
    def of(cls, size: tuple[int, int], count: int) -> Grid:
        """The grid for `count` panels of an image of (H, W) pixels; panels of wide images have fewer columns."""
        aspect = size[1] / size[0]
        area = AREA * min(1.0, max(SMALLEST, FEW / count))
        width = min(PAGE, math.sqrt(area * aspect))
        height = width / aspect
        if height > HIGHEST:
            width, height = HIGHEST * aspect, HIGHEST
        # whole dots, so that panels do not differ; at least one
        width, height = (max(round(inches * DPI), 1) / DPI for inches in (width, height))
        most = max(1, int((PAGE + GAP) / (max(width, NARROWEST) + GAP)))
        rows = math.ceil(count / most)
        return cls(width, height, math.ceil(count / rows), rows)


def draw_captions(
    items: Sequence[CaptionedImage],
    *,
    title: str | None = None,
    smooth: bool = True,
    highest: Highest = "word",
    paged: bool = False,
) -> Iterator[Figure]:
    """The figures of captions: one for each, or one for each of its pages.

    Args:
        title, smooth, highest: as in `plot_captioned_image`.
        paged: begins a new figure where a page of paper ends.

    Raises:
        UnsupportedError: for a caption that is too long for one picture.
    """
    for item, most in zip(items, scales(items, highest), strict=True):
        yield from _figures(item, most, title=title, smooth=smooth, highest=highest, paged=paged)


def _figures(
    item: CaptionedImage,
    most: NDArray[np.float64],
    *,
    title: str | None,
    smooth: bool,
    highest: Highest,
    paged: bool,
) -> Iterator[Figure]:
    heading = visible_words(item.text if title is None else title)
    note = visible_words(item.remarks)
    type_ = Typesetter([*item.tokens, heading, note])
    labels = type_.labels(item.tokens) or ()
    grid = Grid.of(item.size, len(labels) + 1)
    (across, down), head = grid.step, MARGIN + TITLE * bool(heading) + NOTE * bool(note)
    fitting = max(1, int((PAPER - head - FOOT) / down)) if paged else grid.rows
    height = head + min(fitting, grid.rows) * down + FOOT
    if height > TALLEST:
        raise UnsupportedError(
            f"The maps of {len(labels)} words would be {height:.0f} inches high, more than the {TALLEST:.0f} of a "
            "picture; write .pdf, which has pages, or .html."
        )
    width = max(2 * MARGIN + grid.columns * across - GAP, 4.6)
    grey = grey_of(resized(item.image, *_dots(grid)))
    for first in range(0, grid.rows, fitting):
        figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        canvas = np.full((round(height * DPI), round(width * DPI), 3), 255, np.uint8)
        top = MARGIN
        for text, size, colour, room in ((heading, POINTS + 3, INK, TITLE), (note, POINTS, FAINT, NOTE)):
            if text:
                shown = shortened(text, int((width - 2 * MARGIN) / (0.0088 * size)))
                write(axes, MARGIN, top, shown, type_, size=size, colour=colour, va="top")
                top += room
        places = range(first * grid.columns, min((first + fitting) * grid.columns, len(labels) + 1))
        for place in places:
            row, column = divmod(place, grid.columns)
            left, upper = MARGIN + column * across, head + (row - first) * down + LINE
            if place == 0:
                write(axes, left, upper - 0.06, "image", type_, colour=FAINT)
                pixels = resized(item.image, *_dots(grid))
                _paint(canvas, left, upper, np.broadcast_to(pixels, (*pixels.shape[:2], 3)))
            else:
                number = place - 1
                _paint(
                    canvas,
                    left,
                    upper,
                    tinted(grey, strengths(item, number, _dots(grid), smooth=smooth) / most[number]),
                )
                _name(axes, left, upper - 0.06, max(grid.width, NARROWEST), labels[number], item.largest[number], type_)
                if item.is_hard[number]:
                    _outline(axes, item, number, left, upper, grid)
            frame = Rectangle((left, upper), grid.width, grid.height, fill=False, edgecolor="#c9cfd6", linewidth=0.5)
            axes.add_patch(frame)
        _scale(axes, height - FOOT + 0.18, item, most, highest, type_)
        figure.figimage(canvas, zorder=-1)  # dot for dot
        axes.set(xlim=(0, width), ylim=(height, 0))
        yield figure


def strengths(item: CaptionedImage, number: int, dots: tuple[int, int], *, smooth: bool) -> NDArray[np.float64]:
    """The weights (n, m) of a word at the middles of n by m equal parts of the image; NaN where they are not numbers.

    Parts that no cell covers have weight 0.
    """
    weights = item.maps[number]
    rows, columns = (
        ((np.arange(count) + 0.5) / count * side - item.shift) / size
        for count, side, size in zip(dots, item.size, item.cell_size, strict=True)  # type: ignore[arg-type]
    )
    result = cells(weights, rows, columns)
    if smooth and not item.is_hard[number]:
        known = np.isfinite(weights)
        between = smoothed(np.where(known, weights, 0.0), rows, columns)
        result = np.where(np.isfinite(result), between, np.nan)
    slack = abs(item.shift) / np.array(item.cell_size)
    result[rows >= weights.shape[0] + slack[0]] = 0.0
    result[:, columns >= weights.shape[1] + slack[1]] = 0.0
    return result


def _dots(grid: Grid) -> tuple[int, int]:
    return round(grid.height * DPI), round(grid.width * DPI)


def _paint(canvas: NDArray[np.uint8], left: float, top: float, colours: NDArray[np.float64]) -> None:
    y, x = round(top * DPI), round(left * DPI)
    part = canvas[y : y + colours.shape[0], x : x + colours.shape[1]]
    part[:] = (colours[: part.shape[0], : part.shape[1]] * 255).round().astype(np.uint8)


def _outline(axes: Axes, item: CaptionedImage, number: int, left: float, top: float, grid: Grid) -> None:
    """A frame around the chosen cell."""
    (height, width), box = item.size, item.box(*item.peaks[number])
    x0, x1 = (left + x / width * grid.width for x in (box[0], box[2]))
    y0, y1 = (top + y / height * grid.height for y in (box[1], box[3]))
    axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=INK, linewidth=1.2))


def _name(axes: Axes, x: float, y: float, room: float, label: str, weight: float, type_: Typesetter) -> None:
    """The word on the left and its largest weight on the right."""
    number = _number(weight)
    room -= width_of(number) + 0.05
    most = len(label)
    shown = shortened(label, most)
    while most > 1 and width_of(shown) > room:
        most -= 1
        shown = shortened(label, most)
    write(axes, x, y, shown, type_)
    write(axes, x + room + width_of(number) + 0.05, y, number, type_, size=POINTS - 1.5, colour=FAINT, ha="right")


def _number(weight: float) -> str:
    """Two digits of a weight."""
    if not np.isfinite(weight):
        return "–"
    return f"{weight:.2f}" if weight >= 0.0995 or weight == 0 else f"{weight:#.2g}"


def _scale(
    axes: Axes, y: float, item: CaptionedImage, most: NDArray[np.float64], highest: Highest, type_: Typesetter
) -> None:
    """The scale of colours with its legend."""
    if not len(most):
        write(axes, MARGIN, y, "no words", type_, colour=FAINT, size=POINTS - 1)
        return
    table, length = tints(40), 0.9
    for i, colour in enumerate(table):
        axes.add_patch(Rectangle((MARGIN + i * length / 40, y - 0.1), length / 39, 0.1, facecolor=colour, linewidth=0))
    axes.add_patch(Rectangle((MARGIN, y - 0.1), length, 0.1, fill=False, edgecolor="#c9cfd6", linewidth=0.5))
    words = "0 to the number above each map" if highest == "word" else f"weight, 0 to {most[0]:.3g}"
    if highest == "largest":
        words += ", the largest"
    elif highest != "word" and bool((item.largest > most * (1 + 1e-6)).any()):
        words += " and above"
    parts = [words]
    if item.sums_to_one:
        parts.append("a word’s weights sum to 1")
    if item.is_hard.any():
        parts.append("outlined: the chosen cell")
    write(axes, MARGIN + length + 0.08, y, "; ".join(parts), type_, colour=FAINT, size=POINTS - 1)
    if np.isnan(item.maps).any():
        x = MARGIN + 0.08
        axes.add_patch(Rectangle((MARGIN, y + 0.06), 0.1, 0.1, facecolor=UNKNOWN, linewidth=0))
        write(axes, x + 0.08, y + 0.16, "not a number", type_, colour=FAINT, size=POINTS - 1)
