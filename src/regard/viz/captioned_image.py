"""A captioned image: the image, the words, and the map of each word over the image's cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, ShapeError
from regard.viz.aligned import as_numbers
from regard.viz.labels import END_SYMBOL

PEAKED = 1e-6
"""The tolerance of weights of 0 and 1 in a map that is the choice of a single cell."""
SUM = 2e-3
"""The tolerance of the sum of a map whose weights sum to 1."""


@dataclass(frozen=True, eq=False)
class CaptionedImage:
    """An image with its caption, and the weights of each word over the image, from arrays or tensors.

    Cell (y, x) of a map covers the pixels [y·c_h, (y + 1)·c_h) × [x·c_w, (x + 1)·c_w) of the image, with cells of c_h
    by c_w pixels; the last row and column may reach beyond the image. Cells wholly beyond it are padding of a batch and
    are cut off.

    Args:
        image: (H, W, C) uint8 with C = 1 (grey) or 3 (RGB), or (H, W): the network's input, white is 255.
        tokens: the T words. If there is one less than maps, the last map is that of the end symbol.
        maps: (T, h, w) the weights of each word over the cells; or (T, S) with `grid`, S = h·w and s = y·w + x.
        grid: (h, w), rows and columns of cells.
        cell_size: pixels of a cell, one number or (c_h, c_w): the stride of the encoder. If None, the power of two with
            which the cells cover the image, if there is one, else H / h by W / w.
        mask: (h, w) or (S,) bool, True at real cells, which begin at the top left, for an image with padding, which is
            cut to them. It needs `cell_size`.
        note: shown with the image, for example a warning.
        shift: the distance in pixels, to the right and down, from a cell's square to the pixels that the cell depends
            on. Windows of strided convolutions have their middle at the first pixel of their cell, half a cell before
            that of the square (`ImageEncoder.shift`); maps are drawn at the windows.

    The attributes are image (H, W, C), tokens, a tuple, maps (T, h, w), grid (h, w) and cell_size (c_h, c_w), all
    without padding.

    Raises:
        ShapeError: for shapes that do not fit together, an image or a grid of nothing, or pixels that are not uint8.
        RegardError: for sizes that are not positive numbers, or a mask without them.

    >>> seen = CaptionedImage(np.zeros((4, 8), np.uint8), ["a", "b"], np.eye(2), grid=(1, 2))
    >>> seen.maps.shape, seen.cell_size, seen.peaks.tolist()
    ((2, 1, 2), (4.0, 4.0), [[0, 0], [0, 1]])
    """

    image: Any
    tokens: Sequence[str]
    maps: Any
    grid: tuple[int, int] | None = None
    cell_size: float | tuple[float, float] | None = None
    mask: Any = None
    text: str = ""
    note: str = ""
    shift: float = 0.0
    left_out: float = field(init=False, default=0.0)
    """The share of the weight that lay on padding."""

    def __post_init__(self) -> None:
        image = as_pixels(self.image)
        maps = self._maps()
        (height, width), (rows, columns) = image.shape[:2], maps.shape[1:]
        if isinstance(self.tokens, str) or not isinstance(self.tokens, Iterable):
            raise ShapeError(f"tokens must be a list of words; got {self.tokens!r:.60}.")
        tokens = tuple(map(str, self.tokens))
        if len(tokens) == len(maps) - 1:
            tokens = (*tokens, END_SYMBOL)
        if len(tokens) != len(maps):
            raise ShapeError(
                f"maps must have a map for each word, and may have one of the end symbol; there are {len(tokens)} "
                f"words, and maps is {maps.shape}.\n  Is it (S, T), transposed, or are some of its steps padding?"
            )
        cell = _cell_size(self.cell_size, (height, width), (rows, columns))
        seen = (rows, columns)
        if self.mask is not None:
            if self.cell_size is None:
                raise RegardError("A mask needs the cell_size, from which the padding of the image follows.")
            seen = _real(self.mask, (rows, columns))
            image = image[: math.ceil(seen[0] * cell[0]), : math.ceil(seen[1] * cell[1])]
        needed = (_covering(image.shape[0], cell[0]), _covering(image.shape[1], cell[1]))
        if any(size * count <= side - size for size, count, side in zip(cell, seen, image.shape[:2], strict=True)):
            raise ShapeError(
                f"The cells do not cover the image.\n  image  {image.shape[:2]} pixels: {needed[0]} × {needed[1]} "
                f"cells of {cell[0]:g} × {cell[1]:g} pixels\n  maps   {seen[0]} × {seen[1]} cells\n  Is the grid "
                "(h, w), not (w, h)? Is this the network's input, not the original image?"
            )
        kept = maps[:, : min(seen[0], needed[0]), : min(seen[1], needed[1])]
        total = float(np.nansum(np.abs(maps)))
        object.__setattr__(self, "left_out", 1 - float(np.nansum(np.abs(kept))) / total if total else 0.0)
        for name, value in (("image", image), ("tokens", tokens), ("maps", kept), ("cell_size", cell)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "grid", kept.shape[1:])

    def _maps(self) -> NDArray[np.float64]:
        """(T, h, w), with NaN for infinite weights."""
        maps = np.asarray(as_numbers(self.maps), np.float64)
        maps = np.where(np.isfinite(maps), maps, np.nan)
        grid = self.grid
        if grid is not None:
            if not (isinstance(grid, Sequence) and len(grid) == 2 and all(map(_is_count, grid))):
                raise ShapeError(f"grid must be (h, w), rows and columns of cells, each at least 1; got {grid!r}.")
            h, w = map(int, grid)
            if maps.size == 0 and len(maps) == 0:
                return maps.reshape(0, h, w)
            if maps.ndim == 2 and maps.shape[1] == h * w:
                return maps.reshape(len(maps), h, w)
            if maps.shape[1:] != (h, w):
                raise ShapeError(
                    f"maps must be (T, h, w) or (T, S) with S = h·w.\n  maps  {maps.shape}\n"
                    f"  grid  ({h}, {w}): S = {h * w}"
                )
        if maps.ndim != 3:
            raise ShapeError(
                f"maps must be (T, h, w); got {maps.shape}. With maps (T, S), give the grid (h, w), as in "
                "`Encoded.grid`."
            )
        if 0 in maps.shape[1:]:
            raise ShapeError(f"maps must have cells; got (T, h, w) = {maps.shape}.")
        return maps

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image in pixels."""
        return self.image.shape[0], self.image.shape[1]

    @property
    def _flat(self) -> NDArray[np.float64]:
        """(T, S)."""
        steps, rows, columns = self.maps.shape
        flat: NDArray[np.float64] = self.maps.reshape(steps, rows * columns)
        return flat

    @property
    def largest(self) -> NDArray[np.float64]:
        """(T,) the largest weight of each map; NaN if it has no number."""
        flat = self._flat
        none = np.isnan(flat).all(axis=1)
        return np.where(none, np.nan, np.where(np.isnan(flat), -np.inf, flat).max(axis=1, initial=-np.inf))

    @property
    def peaks(self) -> NDArray[np.int64]:
        """(T, 2) row and column of the cell with the largest weight of each map; the first one of several."""
        flat = self._flat
        best = np.argmax(np.where(np.isnan(flat), -np.inf, flat), axis=1)
        return np.stack(np.divmod(best, self.maps.shape[2]), axis=1)

    @property
    def is_hard(self) -> NDArray[np.bool_]:
        """(T,) whether each map is the choice of one cell: a weight of 1 and otherwise 0."""
        flat = self._flat
        ones = np.abs(flat - 1) <= PEAKED
        hard: NDArray[np.bool_] = (ones.sum(axis=1) == 1) & (ones | (np.abs(flat) <= PEAKED)).all(axis=1)
        return hard

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights of every map sum to 1."""
        sums = self.maps.sum(axis=(1, 2))
        return bool(len(sums)) and bool(np.all(np.isnan(sums) | (np.abs(sums - 1) <= SUM)))

    @property
    def remarks(self) -> str:
        """The note, and how much weight lay on padding if it was more than rounding."""
        padding = f"{self.left_out:.1%} of the weight lay on padding" if self.left_out > SUM else ""
        return "; ".join(part for part in (self.note, padding) if part)

    def without_end(self) -> CaptionedImage:
        """The same without the map of the end symbol, if there is one."""
        if not self.tokens or self.tokens[-1] != END_SYMBOL:
            return self
        return CaptionedImage(
            self.image,
            self.tokens[:-1],
            self.maps[:-1],
            cell_size=self.cell_size,
            text=self.text,
            note=self.remarks,
            shift=self.shift,
        )

    def box(self, row: int, column: int) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of a cell in pixels, within the image."""
        (height, width), (tall, wide) = self.size, self.cell_size  # type: ignore[misc]
        return (
            min(max(column * wide + self.shift, 0), width),
            min(max(row * tall + self.shift, 0), height),
            min((column + 1) * wide + self.shift, width),
            min((row + 1) * tall + self.shift, height),
        )


def as_pixels(image: Any) -> NDArray[np.uint8]:
    """The image as (H, W, C) uint8."""
    if hasattr(image, "detach"):
        image = image.detach().cpu().numpy()
    try:
        pixels = np.asarray(image)
    except ValueError as error:
        raise ShapeError(f"image must be an array (H, W, C) of uint8; got {type(image).__name__} ({error}).") from None
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
        hint = "\n  Axes are (H, W, C), and not (C, H, W)." if pixels.ndim == 3 and pixels.shape[0] in (1, 3) else ""
        raise ShapeError(f"image must be (H, W, C) with C = 1 or 3, not empty; got {pixels.shape}.{hint}")
    if pixels.dtype != np.uint8:
        raise ShapeError(
            f"image must be uint8, with 255 for white; got {pixels.dtype}.\n  Of x from 0 to 1: "
            "(x * 255).round().astype(np.uint8); of ink: 255 minus that."
        )
    return pixels


def _covering(side: int, size: float) -> int:
    """The number of cells of a size that cover a side, rounding errors apart."""
    return max(1, math.ceil(side / size - 1e-9))


def _cell_size(given: Any, image: tuple[int, int], grid: tuple[int, int]) -> tuple[float, float]:
    if given is not None:
        pair = tuple(given) if isinstance(given, Sequence | np.ndarray) else (given, given)
        if len(pair) != 2 or not all(_is_size(side) for side in pair):
            raise RegardError(
                f"cell_size must be the pixels of a cell, a number above 0 or (height, width); got {given!r}."
            )
        return float(pair[0]), float(pair[1])
    for power in range(max(image).bit_length() + 1):
        size = 2**power
        if all(_covering(side, size) == count for side, count in zip(image, grid, strict=True)):
            return float(size), float(size)
    tall, wide = (side / count for side, count in zip(image, grid, strict=True))
    turned = [side / count for side, count in zip(image, reversed(grid), strict=True)]
    oblong, other = max(tall, wide) / min(tall, wide), max(turned) / min(turned)
    if oblong > 2 and other < oblong:
        raise ShapeError(
            f"An image of {image[0]} × {image[1]} pixels with a grid of {grid[0]} × {grid[1]} would have cells of "
            f"{tall:.3g} × {wide:.3g} pixels.\n  Is the grid (h, w), not (w, h)? If it is, give cell_size."
        )
    return tall, wide


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def _is_size(value: Any) -> bool:
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return numeric and math.isfinite(value) and value > 0


def _real(mask: Any, grid: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of real cells, which are a rectangle at the top left."""
    if hasattr(mask, "detach"):
        mask = mask.detach().cpu().numpy()
    cells = np.asarray(mask)
    if cells.dtype != np.bool_ or cells.shape not in (grid, (grid[0] * grid[1],)):
        raise ShapeError(
            f"mask must be bool of shape (h, w) = {grid} or (S,) = ({grid[0] * grid[1]},), True at real cells; got "
            f"{cells.dtype} {cells.shape}."
        )
    cells = cells.reshape(grid)
    rows, columns = int(cells.any(axis=1).sum()), int(cells.any(axis=0).sum())
    if not rows or int(cells.sum()) != rows * columns or not cells[:rows, :columns].all():
        raise ShapeError(
            f"mask must be True in a rectangle of cells at the top left, and False elsewhere; of {grid[0]} × {grid[1]} "
            f"cells {int(cells.sum())} are real."
        )
    return rows, columns
