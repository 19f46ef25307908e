"""Whether the map of a word is where the object is that the word names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import ShapeError
from regard.health.maps import read_cells


@dataclass(frozen=True, eq=False, slots=True)
class Pointing:
    """Where words look that name an object; all arrays are (W,), for the W words with boxes.

    Args:
        step: which map is that of the word.
        hit: whether the cell of the largest weight overlaps a box of the word.
        centre_hit: whether the centre of that cell is in a box of the word.
        weight: the share of the map's weight on cells that overlap a box.
        chance: the share of real cells that overlap a box: how often a random cell hits, and the weight on the box of
            uniform attention.
        centre_chance: the share of real cells whose centre is in a box.
    """

    step: NDArray[np.int64]
    hit: NDArray[np.bool_]
    centre_hit: NDArray[np.bool_]
    weight: NDArray[np.float64]
    chance: NDArray[np.float64]
    centre_chance: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.hit)

    @classmethod
    def joined(cls, captions: Iterable[Pointing]) -> Pointing:
        """That of all words of several captions."""
        all_of = [cls.none(), *captions]
        return cls(*(np.concatenate([getattr(one, name) for one in all_of]) for name in FIELDS))

    @classmethod
    def none(cls) -> Pointing:
        """That of a caption without words that name an object."""
        no, nothing = np.zeros(0, bool), np.zeros(0)
        return cls(np.zeros(0, np.int64), no, no, nothing, nothing, nothing)

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


FIELDS = ("step", "hit", "centre_hit", "weight", "chance", "centre_chance")


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
    edge. The stricter rule asks for the centre of that cell within the box. A row without weight never hits and has no
    weight on the box. Beside both stands how often a random cell would hit.

    Args:
        maps: (T, S) or (T, h, w) weights, a map for each word.
        boxes: for each map None if its word names no object, a box, or the boxes of several objects, any of which
            counts; a box is (left, upper, right, lower) in pixels. An end symbol is a word without a box.
        size: height and width, in the pixels of the boxes, of what the grid covers evenly: of a picture that was
            padded, the padded one.
        grid: h and w, for maps (T, S).
        mask: (S,) or (h, w) bool, True at real cells; others cannot be the largest.

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
        weights, looks = cells.weights[step], bool(cells.has_weight[step])
        best = int(np.where(cells.is_real, weights, -1.0).argmax())
        rows.append(
            (
                step,
                looks and overlaps[best],
                looks and has_centre[best],
                weights[overlaps].sum() if looks else 0.0,
                overlaps[cells.is_real].mean(),
                has_centre[cells.is_real].mean(),
            )
        )
    none = Pointing.none()
    columns = zip(*rows) if rows else ()
    arrays = [np.array(column, getattr(none, name).dtype) for name, column in zip(FIELDS, columns)]
    return Pointing(*arrays) if rows else none


def _boxes(entry: Any, size: tuple[int, int], step: int) -> NDArray[np.float64]:
    """(N, 4) the boxes of a word."""
    try:
        boxes = np.asarray(entry, np.float64)
    except (TypeError, ValueError):
        boxes = np.zeros(0)
    boxes = boxes[None] if boxes.ndim == 1 else boxes
    right = boxes.ndim == 2 and boxes.shape[1] == 4 and len(boxes) > 0
    if right:
        x0, y0, x1, y1 = boxes.T
        right = bool(((x0 >= 0) & (x0 < x1) & (x1 <= size[1]) & (y0 >= 0) & (y0 < y1) & (y1 <= size[0])).all())
    if not right:
        raise ShapeError(
            f"boxes of word {step} must be (left, upper, right, lower), or a list of such, within "
            f"{size[1]} × {size[0]} pixels; got {entry!r}."
        )
    return boxes
