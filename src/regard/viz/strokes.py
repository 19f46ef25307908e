"""Draws handwriting in the colours of the recognised symbols: each stroke has the symbol that attends to it most."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, ShapeError
from regard.image.strokes import Strokes
from regard.viz.captioned_image import CaptionedImage
from regard.viz.files import PICTURES, suffix_of
from regard.viz.labels import END_SYMBOL

WITHOUT_INK = frozenset(("{", "}", "^", "_", "\\limits", "\\left", "\\right", END_SYMBOL))
"""Tokens of LaTeX that nobody writes with a pen."""
PARTS = 4
"""Points along a stroke for each side of a cell."""
LEAST = 0.05
"""A weight stands out if it is above the even weight by this share of the distance from the even weight to 1."""


def plot_strokes(
    strokes: Strokes,
    caption: CaptionedImage,
    path: str | Path,
    *,
    title: str | None = None,
    without_ink: Collection[str] = WITHOUT_INK,
) -> Path:
    """Draws strokes, each in the colour of the symbol that attends to it most, and below them the symbols.

    A symbol's number stands next to its strokes and after it in the text, so that forty symbols are distinguishable. A
    stroke is paler the more other symbols attend to it. Symbols without a stroke, and strokes to which no symbol
    attends more than to the rest of the image, are grey.

    Args:
        strokes: in pixels of the caption's image, as `regard.image.pixel_strokes` makes them.
        caption: the symbols and their maps.
        path: ends in .png, .svg or .pdf; missing folders are created.
        title: the text above everything; the caption's `text` if None.
        without_ink: symbols that are not written and so get no stroke.

    Raises:
        RegardError: for another suffix, or strokes outside the image.

    >>> import tempfile
    >>> caption = CaptionedImage(np.full((16, 32), 255, np.uint8), ["1", "+"], np.eye(2), grid=(1, 2))
    >>> strokes = Strokes.of([[8, 2, 8, 14], [18, 8, 30, 8], [24, 2, 24, 14]])
    >>> strokes_of(strokes, caption).tolist()
    [0, 1, 1]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plot_strokes(strokes, caption, folder + "/sum.svg").name
    'sum.svg'
    """
    target = Path(path)
    suffix_of(target, PICTURES)
    means = _means(strokes, caption, without_ink)
    from regard.viz.picture import DPI
    from regard.viz.stroke_picture import draw_strokes

    figure = draw_strokes(strokes, caption, _owners(means, caption), _certainties(means), title=title)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=DPI)
    return target


def strokes_of(
    strokes: Strokes, caption: CaptionedImage, *, without_ink: Collection[str] = WITHOUT_INK
) -> NDArray[np.int64]:
    """(strokes,) the symbol that attends to each stroke most; -1 if none does more than to the rest of the image.

    It is the symbol with the largest mean weight along the stroke, at points a quarter of a cell apart, of maps whose
    weights sum to 1.

    Raises:
        RegardError: for strokes outside the image.
    """
    return _owners(_means(strokes, caption, without_ink), caption)


def _means(strokes: Strokes, caption: CaptionedImage, without_ink: Collection[str]) -> NDArray[np.float64]:
    """(strokes, tokens) the mean weight of each symbol along each stroke; 0 of symbols without ink."""
    height, width = caption.size
    tall, wide = caption.cell_size  # type: ignore[misc]
    _check_within(strokes, height, width, max(tall, wide))
    maps = np.nan_to_num(caption.maps)
    silent = [word in without_ink for word in caption.tokens]
    means = np.zeros((len(strokes.lines), len(maps)))
    rows, columns = maps.shape[1:]
    for number, line in enumerate(strokes.lines):
        points = along(line, min(tall, wide) / PARTS)
        x, y = np.floor((points - caption.shift) / (wide, tall)).astype(int).T
        means[number] = maps[:, y.clip(0, rows - 1), x.clip(0, columns - 1)].mean(axis=1)
    means[:, silent] = 0.0
    return means


def _owners(means: NDArray[np.float64], caption: CaptionedImage) -> NDArray[np.int64]:
    """(strokes,) the symbol of the largest mean; -1 where that is hardly above the even weight of all cells."""
    if not means.shape[1]:
        return np.full(len(means), -1)
    even = 1 / max(np.prod(caption.maps.shape[1:]), 1)
    largest = means.max(axis=1)
    stands_out = (largest > 2 * even) | (largest > even + LEAST * (1 - even))
    return np.where(stands_out, means.argmax(axis=1), -1)


def _certainties(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """(strokes,) from 0, if all symbols attend to a stroke equally, to 1, if only one does."""
    count = means.shape[1]
    if count < 2:
        return np.ones(len(means))
    shares = means.max(axis=1) / np.maximum(means.sum(axis=1), np.finfo(float).tiny)
    return (shares - 1 / count).clip(0, 1) * count / (count - 1)


def along(line: NDArray[np.floating], step: float) -> NDArray[np.float64]:
    """Points (n, 2) at equal distances of at most `step` along a line, its ends included; one for a dot.

    >>> along(np.array([[0.0, 0.0], [3.0, 4.0]]), 2.0).round(2).tolist()
    [[0.0, 0.0], [1.0, 1.33], [2.0, 2.67], [3.0, 4.0]]
    """
    points = np.asarray(line, np.float64)
    lengths = np.append(0.0, np.hypot(*np.diff(points, axis=0).T).cumsum())
    if lengths[-1] == 0:
        return points[:1]
    places = np.linspace(0.0, lengths[-1], int(np.ceil(lengths[-1] / step)) + 1)
    return np.stack([np.interp(places, lengths, points[:, axis]) for axis in (0, 1)], axis=1)


def _check_within(strokes: Strokes, height: int, width: int, slack: float) -> None:
    if not isinstance(strokes, Strokes):
        raise ShapeError(f"strokes must be regard.image.Strokes; got {type(strokes).__name__}. Strokes.of makes them.")
    left, top, right, bottom = strokes.bounds
    if left < -slack or top < -slack or right > width + slack or bottom > height + slack:
        raise RegardError(
            f"strokes lie outside the image.\n  image    {height} × {width} pixels\n"
            f"  strokes  x from {left:.5g} to {right:.5g}, y from {top:.5g} to {bottom:.5g}\n"
            "  regard.image.pixel_strokes converts them to pixels."
        )
