"""A map of weights laid over an image: dimmed pixels, weights between the centres of cells, and their colours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.viz.colours import WARM, ramp

Pixels = NDArray[np.float64]
"""Grey or colours from 0 to 1."""
DIM, SHADE, COVER = 0.5, 0.72, 0.85
"""The grey of black in a dimmed image, the brightness of colours over black, and the opacity of the largest weight."""
VIVID = 0.58
"""The share of a ramp that is used: its brightest colours, so that ink is readable on them."""
UNKNOWN = (0.62, 0.36, 0.72)
"""The colour of cells whose weight is not a number; no weight has it."""


def tints(count: int = 256) -> Pixels:
    """The colours (count, 3) of weights over an image, from white for 0."""
    return ramp(round(count / VIVID), hues=WARM)[:count]


def smoothed(weights: Pixels, rows: Pixels, columns: Pixels) -> Pixels:
    """Weights (n, m) between the centres of cells, by cubic convolution.

    It has the cell's weight at the centre of a cell, is constant beyond the outermost centres, and stays between the
    least and the largest weight.

    Args:
        weights: (h, w) finite.
        rows, columns: (n,) and (m,) places, in cells from the top left: the centre of cell 0 is at 0.5.

    Source: Keys 1981, "Cubic convolution interpolation for digital image processing", a = -1/2.

    >>> smoothed(np.array([[0.0, 1.0]]), np.array([0.5]), np.array([0.0, 0.5, 1.0, 1.5])).round(2).tolist()
    [[0.0, 0.0, 0.5, 1.0]]
    """
    surface = _cubic(rows, weights.shape[0]) @ weights @ _cubic(columns, weights.shape[1]).T
    return surface.clip(weights.min(), weights.max())


def _cubic(places: Pixels, count: int) -> Pixels:
    """(n, count) the coefficient of each cell at each place; rows sum to 1."""
    places = np.clip(places - 0.5, 0, count - 1)
    matrix = np.zeros((len(places), count))
    first = np.floor(places).astype(int)
    for offset in (-1, 0, 1, 2):
        distance = np.abs(places - (first + offset))
        near = 1 - 2.5 * distance**2 + 1.5 * distance**3
        far = 2 - 4 * distance + 2.5 * distance**2 - 0.5 * distance**3
        factor = np.where(distance < 1, near, np.where(distance < 2, far, 0.0))
        np.add.at(matrix, (np.arange(len(places)), np.clip(first + offset, 0, count - 1)), factor)
    return matrix


def cells(weights: Pixels, rows: Pixels, columns: Pixels) -> Pixels:
    """The weights (n, m) of the cells that contain the places; arguments as in `smoothed`."""
    y, x = (
        np.clip(np.floor(places).astype(int), 0, count - 1)
        for places, count in zip((rows, columns), weights.shape, strict=True)
    )
    return weights[np.ix_(y, x)]


def resized(image: NDArray[np.uint8], height: int, width: int) -> Pixels:
    """The image (height, width, C) from 0 to 1: means of pixels where it is reduced, repeated pixels where enlarged."""
    result = image / 255.0
    for axis, count in ((0, height), (1, width)):
        size = result.shape[axis]
        if count < size:
            starts = np.arange(count) * size // count
            lengths = np.diff(np.append(starts, size))
            shape = [1, 1, 1]
            shape[axis] = count
            result = np.add.reduceat(result, starts, axis=axis) / lengths.reshape(shape)
        elif count > size:
            result = np.take(result, np.arange(count) * size // count, axis=axis)
    return result


def grey_of(pixels: Pixels) -> Pixels:
    """The brightness (n, m, 1) of pixels (n, m, C).

    Source: the luma of ITU-R BT.601.
    """
    return pixels if pixels.shape[2] == 1 else pixels @ np.array([[0.299], [0.587], [0.114]])


def tinted(grey: Pixels, strengths: Pixels) -> Pixels:
    """Colours (n, m, 3) of weights over a dimmed image.

    For the image's grey g and a strength s with the colour c: (1 - a) d + a c (SHADE + (1 - SHADE) g), with the dimmed
    grey d = DIM + (1 - DIM) g and the opacity a = COVER √s. Weights of 0 show the dimmed image, and ink stays readable
    under the largest.

    Args:
        grey: (n, m, 1) from 0 to 1.
        strengths: (n, m) from 0 to 1; NaN is unknown.
    """
    table = np.concatenate([tints(), [UNKNOWN]])
    known = np.isfinite(strengths)
    shares = np.where(known, strengths, 1.0).clip(0, 1)
    colours = table[np.where(known, (shares * 255).round(), 256).astype(int)]
    opacity = COVER * np.sqrt(shares)[..., None]
    return (1 - opacity) * (DIM + (1 - DIM) * grey) + opacity * colours * (SHADE + (1 - SHADE) * grey)
