"""Measures of attention maps over pictures: the divergence between words, the weight on ink and on named objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, ShapeError
from regard.metrics.padding import Matrix, as_array
from regard.metrics.table import ItemArrays

INK = 0.1
"""The least difference of a channel from the paper for ink, as a share of the range."""
PAPER = 255


@dataclass(frozen=True, eq=False, slots=True)
class Cells:
    """The maps of words over the real cells of a grid; cell (y, x) has the number y·w + x.

    Args:
        weights: (T, S) float64, 0 on padding; rows sum to 1.
        is_real: (S,) bool.
        has_weight: (T,) bool; a row without weight is uniform in `weights`.
        grid: h and w with S = h·w, or None if it was not given.
    """

    weights: Matrix
    is_real: NDArray[np.bool_]
    has_weight: NDArray[np.bool_]
    grid: tuple[int, int] | None

    def edges(self, size: tuple[int, int]) -> NDArray[np.float64]:
        """(S, 4) left, upper, right and lower edges of the cells in a picture of height and width `size`."""
        assert self.grid is not None
        (height, width), (h, w) = size, self.grid
        y, x = (grid.ravel() for grid in np.indices((h, w)))
        return np.stack([x * width / w, y * height / h, (x + 1) * width / w, (y + 1) * height / h], axis=1)


def read_cells(maps: Any, grid: tuple[int, int] | None, mask: Any, *, need_grid: bool = True) -> Cells:
    """Checks maps and removes padding.

    Args:
        maps: (T, S), or (T, h, w), which needs no grid.
        grid: h and w.
        mask: (S,) or (h, w) bool, True at real cells; all if None.

    Raises:
        ShapeError: for other shapes, or a mask without a real cell.
        RegardError: for weights that are NaN, infinite or negative where they are not padding.
    """
    weights = as_array(maps, "maps: ").astype(np.float64)
    if weights.ndim == 3:
        shape = weights.shape[1], weights.shape[2]
        if grid is not None and tuple(grid) != shape:
            raise ShapeError(f"maps of shape {weights.shape} have the grid {shape}; got grid={tuple(grid)}.")
        grid = shape
        weights = weights.reshape(len(weights), shape[0] * shape[1])
    elif weights.ndim != 2:
        raise ShapeError(f"maps must be (T, S) with a grid, or (T, h, w); got shape {weights.shape}.")
    elif grid is None and need_grid:
        raise ShapeError(
            f"maps of shape {weights.shape} need grid=(h, w), the rows and columns of their positions.\n"
            "  An encoder of images returns it: encoded.grid"
        )
    positions = weights.shape[1]
    if grid is not None and (len(grid) != 2 or grid[0] * grid[1] != positions):
        raise ShapeError(f"maps of {positions} positions do not fit grid={tuple(grid)}: h·w must be {positions}.")
    keep = np.ones(positions, bool) if mask is None else as_array(mask, "mask: ")
    if keep.dtype != bool or keep.shape not in ((positions,), grid):
        raise ShapeError(
            f"mask must be ({positions},){'' if grid is None else f' or {tuple(grid)}'} bool, True at real cells; got "
            f"{keep.shape} {keep.dtype}."
        )
    keep = keep.ravel()
    if not keep.any():
        raise ShapeError(f"maps need at least one real cell; got none of {positions}.")
    wrong = np.argwhere((~np.isfinite(weights) | (weights < 0)) & keep)
    if len(wrong):
        step, position = wrong[0]
        raise RegardError(
            f"Weights must be finite and not negative; the map of word {step} has {weights[step, position]} at "
            f"position {position}."
        )
    weights = np.where(keep, weights, 0.0)
    largest = weights.max(1, keepdims=True)  # divides by it first, for denormal weights
    scaled = np.divide(weights, largest, out=keep * np.ones_like(weights), where=largest > 0)
    return Cells(scaled / scaled.sum(1, keepdims=True), keep, largest[:, 0] > 0, grid and (grid[0], grid[1]))


def map_divergence(maps: Any, *, grid: tuple[int, int] | None = None, mask: Any = None) -> float:
    """The divergence between the maps of a caption's words: 0 if all are identical, 1 if no two have a cell in common.

    The mean over all pairs of words of the Jensen-Shannon divergence of their maps p and q, in bits,

        JS(p, q) = ½ KL(p ‖ m) + ½ KL(q ‖ m)    with    m = ½ (p + q),

    which is between 0 and 1. It is near 0 if maps depend on the picture but not on the word, which single maps do not
    show. A row without weight counts as uniform. NaN for fewer than two words.

    Args:
        maps: (T, S) or (T, h, w) weights; an array, a tensor or nested lists.
        grid: h and w; optional.
        mask: (S,) or (h, w) bool, True at real cells; padding never counts.

    Raises:
        ShapeError: for other shapes.
        RegardError: for weights that are NaN, infinite or negative.

    Source: Lin 1991, Divergence Measures Based on the Shannon Entropy.

    >>> map_divergence([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), map_divergence([[0.2, 0.8], [0.2, 0.8]])
    (1.0, 0.0)
    """
    cells = read_cells(maps, grid, mask, need_grid=False)
    weights = cells.weights[:, cells.is_real]
    if len(weights) < 2:
        return float("nan")
    total = 0.0
    for step, p in enumerate(weights[:-1]):
        others = weights[step + 1 :]
        middle = (p + others) / 2
        total += float((_divergence(p, middle) + _divergence(others, middle)).sum()) / 2
    pairs = len(weights) * (len(weights) - 1) / 2
    return min(max(total / pairs, 0.0), 1.0)


def _divergence(p: Matrix, middle: Matrix) -> Matrix:
    """(rows,) KL(p ‖ m) in bits; m is at least p/2."""
    ratio = np.divide(p, middle, out=np.ones_like(middle), where=(middle > 0) & (p > 0))
    return (p * np.log2(ratio)).sum(1)


class InkShare(NamedTuple):
    """The share of weight on cells with ink.

    Args:
        share: the mean over words.
        uniform: the share of real cells with ink, which is that of uniform attention.
        each: (T,) the share of each word.
    """

    share: float
    uniform: float
    each: NDArray[np.float64]

    def __str__(self) -> str:
        return f"weight on ink {self.share:.1%} (uniform {self.uniform:.1%})"


def ink_share(
    maps: Any, image: Any, *, grid: tuple[int, int] | None = None, mask: Any = None, paper: int = PAPER
) -> InkShare:
    """The share of weight on cells with ink, and that of uniform attention.

    A cell has ink if a channel of one of its pixels differs from the paper by more than a tenth of the range. A row
    without weight counts as uniform. The share is NaN without words.

    Args:
        maps: (T, S) or (T, h, w) weights.
        image: (H, W) or (H, W, C) uint8 as on a screen, or bool, True at ink, after scaling and padding: the grid
            covers all of it.
        grid: h and w, for maps (T, S).
        mask: (S,) or (h, w) bool, True at real cells.
        paper: the value of all channels of paper.

    Raises:
        ShapeError: for other shapes or types.
        RegardError: for weights that are NaN, infinite or negative.

    >>> image = np.full((8, 8), 255, np.uint8)
    >>> image[5, 5] = 0
    >>> print(ink_share([[0.1, 0.0, 0.0, 0.9]], image, grid=(2, 2)))
    weight on ink 90.0% (uniform 25.0%)
    """
    cells = read_cells(maps, grid, mask)
    pixels = as_array(image, "image: ")
    if pixels.ndim not in (2, 3) or not pixels.size or pixels.dtype not in (np.dtype(np.uint8), np.dtype(bool)):
        raise ShapeError(f"image must be (H, W) or (H, W, C) uint8 or bool; got {pixels.shape} {pixels.dtype}.")
    ink = pixels if pixels.dtype == bool else np.abs(pixels.astype(int) - paper) > INK * PAPER
    ink = ink.any(2) if ink.ndim == 3 else ink
    counts = np.zeros((ink.shape[0] + 1, ink.shape[1] + 1), np.int64)  # ink above and to the left of each corner
    counts[1:, 1:] = ink.cumsum(0).cumsum(1)
    edges = cells.edges((ink.shape[0], ink.shape[1]))
    (left, upper), (right, lower) = np.floor(edges[:, :2]).astype(int).T, np.ceil(edges[:, 2:]).astype(int).T
    drawn = counts[lower, right] - counts[upper, right] - counts[lower, left] + counts[upper, left] > 0
    each = cells.weights @ drawn.astype(np.float64)
    share = float(each.mean()) if len(each) else float("nan")
    return InkShare(share, float(drawn[cells.is_real].mean()), each)


@dataclass(frozen=True, eq=False, slots=True)
class Pointing(ItemArrays):
    """Whether words attend to the objects that they name; all arrays are (W,), for the W words with boxes.

    Args:
        step: the index of the word's map.
        hit: whether the cell of the largest weight overlaps a box of the word.
        centre_hit: whether the centre of that cell is in a box of the word.
        weight: the share of the map's weight on cells that overlap a box.
        chance: the share of real cells that overlap a box: the mean hit of a random cell, and the weight of uniform
            attention.
        centre_chance: the share of real cells whose centre is in a box.
    """

    step: NDArray[np.int64]
    hit: NDArray[np.bool_]
    centre_hit: NDArray[np.bool_]
    weight: NDArray[np.float64]
    chance: NDArray[np.float64]
    centre_chance: NDArray[np.float64]

    def mean(self, name: str = "hit") -> float:
        """The mean over words of hit, centre_hit, weight, chance or centre_chance; NaN without words."""
        return float(getattr(self, name).mean()) if len(self) else float("nan")

    def __str__(self) -> str:
        if not len(self):
            return "no word names an object"
        return (
            f"pointing {self.mean():.1%} (chance {self.mean('chance'):.1%}), by the centre of the cell "
            f"{self.mean('centre_hit'):.1%} (chance {self.mean('centre_chance'):.1%}), weight on the object "
            f"{self.mean('weight'):.1%} ({len(self):,} words)"
        )


def pointing(
    maps: Any,
    boxes: Sequence[Any],
    *,
    size: tuple[int, int],
    grid: tuple[int, int] | None = None,
    mask: Any = None,
) -> Pointing:
    """Whether words that name an object have their largest weight on it.

    A map hits if its cell of the largest weight (the first of equal ones) overlaps a box of the word by more than an
    edge; by the stricter rule the centre of that cell must be in the box. A row without weight never hits and has no
    weight on the box.

    Args:
        maps: (T, S) or (T, h, w) weights, a map for each word.
        boxes: for each map a box, the boxes of several objects, any of which counts, or None for a word that names no
            object, and for an end symbol; a box is (left, upper, right, lower) in pixels.
        size: height and width of the picture after padding, in the pixels of the boxes: the grid covers all of it.
        grid: h and w, for maps (T, S).
        mask: (S,) or (h, w) bool, True at real cells.

    Raises:
        ShapeError: for other shapes, another number of boxes than of maps, or a box that is empty or leaves the
            picture.
        RegardError: for weights that are NaN, infinite or negative.

    >>> maps = np.zeros((2, 4, 4))
    >>> maps[0, 1, 2] = maps[1, 3, 3] = 1
    >>> print(pointing(maps, [(16, 8, 25, 16), None], size=(32, 32)))  # doctest: +NORMALIZE_WHITESPACE
    pointing 100.0% (chance 12.5%), by the centre of the cell 100.0% (chance 6.2%), weight on the object 100.0%
    (1 words)
    """
    cells = read_cells(maps, grid, mask)
    if len(size) != 2 or min(size) <= 0:
        raise ShapeError(f"size must be the height and width of the picture in pixels; got {size!r}.")
    if len(boxes) != len(cells.weights):
        raise ShapeError(
            f"pointing needs boxes or None for each of the {len(cells.weights)} maps; got {len(boxes)}.\n"
            "  A map of an end symbol has None."
        )
    left, upper, right, lower = cells.edges(size).T
    x, y = (left + right) / 2, (upper + lower) / 2
    rows: list[tuple[Any, ...]] = []
    for step, entry in enumerate(boxes):
        if entry is None:
            continue
        overlaps, has_centre = np.zeros(len(x), bool), np.zeros(len(x), bool)
        for x0, y0, x1, y1 in _boxes(entry, size, step):
            overlaps |= (left < x1) & (x0 < right) & (upper < y1) & (y0 < lower)
            has_centre |= (x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)
        weights, has_weight = cells.weights[step], bool(cells.has_weight[step])
        best = int(np.where(cells.is_real, weights, -1.0).argmax())
        rows.append(
            (
                step,
                has_weight and overlaps[best],
                has_weight and has_centre[best],
                weights[overlaps].sum() if has_weight else 0.0,
                overlaps[cells.is_real].mean(),
                has_centre[cells.is_real].mean(),
            )
        )
    if not rows:
        return Pointing.none()
    kinds = (np.int64, bool, bool, np.float64, np.float64, np.float64)
    return Pointing(*(np.array(column, kind) for column, kind in zip(zip(*rows), kinds, strict=True)))


def _boxes(entry: Any, size: tuple[int, int], step: int) -> NDArray[np.float64]:
    """(N, 4) the checked boxes of a word."""
    try:
        boxes = np.asarray(entry, np.float64)
    except (TypeError, ValueError):
        boxes = np.zeros(0)
    boxes = boxes[None] if boxes.ndim == 1 else boxes
    valid = boxes.ndim == 2 and boxes.shape[1] == 4 and len(boxes) > 0
    if valid:
        x0, y0, x1, y1 = boxes.T
        valid = bool(((x0 >= 0) & (x0 < x1) & (x1 <= size[1]) & (y0 >= 0) & (y0 < y1) & (y1 <= size[0])).all())
    if not valid:
        raise ShapeError(
            f"boxes of word {step} must be (left, upper, right, lower), or a list of such, within "
            f"{size[1]} × {size[0]} pixels; got {entry!r}."
        )
    return boxes
