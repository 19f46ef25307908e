"""Handwriting as strokes of a pen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError

Line = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A written symbol: its label and its strokes.

    Args:
        label: as annotated, such as `\\\\alpha`.
        strokes: indices in `Strokes.lines`.
    """

    label: str
    strokes: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Strokes:
    """Handwriting as strokes, each a line from a touch of the paper to the next lift.

    Args:
        lines: (points, 2) float32 for each stroke: x to the right and y down, in any unit. A stroke has at least one
            point; a single one is a dot.
        text: the written text, if the file has it.
        symbols: the written symbols, if the file has them.
        place: file and line, such as `ink.jsonl:3`, for messages.

    Raises:
        DataError: for a stroke of another shape, without points, or with a number that is not finite.

    >>> strokes = Strokes.of([[0, 0, 3, 4], [[5, 5]]])
    >>> strokes.num_points, strokes.extent
    (3, (5.0, 5.0))
    """

    lines: tuple[Line, ...]
    text: str | None = None
    symbols: tuple[Symbol, ...] = ()
    place: str = ""

    def __post_init__(self) -> None:
        before = self.place and f"{self.place}: "
        if not self.lines:
            raise DataError(f"{before}expected at least one stroke; got none.")
        for number, line in enumerate(self.lines, 1):
            if not isinstance(line, np.ndarray) or line.ndim != 2 or line.shape[1] != 2 or not len(line):
                shape = f"an array {line.shape}" if isinstance(line, np.ndarray) else type(line).__name__
                raise DataError(f"{before}stroke {number}: expected points, an array (points, 2); got {shape}.")
        if not np.isfinite(np.concatenate(self.lines)).all():
            number, line = next((i, line) for i, line in enumerate(self.lines, 1) if not np.isfinite(line).all())
            where = int(np.flatnonzero(~np.isfinite(line).all(1))[0])
            raise DataError(
                f"{before}stroke {number}: point {where + 1} is {line[where].tolist()}; points must be finite float32."
            )
        for symbol in self.symbols:
            if wrong := [i for i in symbol.strokes if not 0 <= i < len(self.lines)]:
                raise DataError(f"{before}symbol {symbol.label!r} has stroke {wrong[0]} of {len(self.lines)}.")

    @classmethod
    def of(cls, value: Any, *, text: str | None = None, place: str = "") -> Strokes:
        """Strokes from lists of numbers, as in JSON.

        Args:
            value: a list of strokes, each a list [x0, y0, x1, y1, …] or a list of points [x, y]; further numbers of a
                point, such as the time, are left out.
            text, place: as for the class.

        Raises:
            DataError: for any other value. The text begins with the place and names stroke and value.
        """
        before = place and f"{place}: "
        if not isinstance(value, Sequence) or isinstance(value, str) or not len(value):
            raise DataError(f"{before}expected strokes, a list of lists of numbers; got {_shown(value)}.")
        return cls(tuple(_line(stroke, f"{before}stroke {i}") for i, stroke in enumerate(value, 1)), text, (), place)

    @property
    def num_points(self) -> int:
        """The number of points of all strokes."""
        return sum(map(len, self.lines))

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of all points."""
        points = np.concatenate(self.lines)
        (left, top), (right, bottom) = points.min(0).tolist(), points.max(0).tolist()
        return left, top, right, bottom

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height of all strokes together."""
        left, top, right, bottom = self.bounds
        return right - left, bottom - top

    @property
    def typical_size(self) -> float:
        """The approximate height of a letter: the median size of strokes, without dots.

        The size of a stroke is the larger one of its width and height. Most symbols have strokes about as large as the
        symbol (as in x, + or =), so the median is near the size of a letter, and a long fraction bar or a large bracket
        does not change it. Dots and commas, strokes smaller than a quarter of the third quartile, are left out. 0 if
        all strokes are points.
        """
        points = np.concatenate(self.lines)
        starts = np.cumsum([0, *map(len, self.lines)])[:-1]
        sizes = np.maximum.reduceat(points, starts).astype(np.float64) - np.minimum.reduceat(points, starts)
        sizes = sizes.max(1)
        return float(np.median(sizes[sizes >= np.quantile(sizes, 0.75) / 4]))

    def mapped(self, lines: Iterable[NDArray[Any]]) -> Strokes:
        """The strokes with other points and the same text, symbols and place."""
        return Strokes(tuple(line.astype(np.float32) for line in lines), self.text, self.symbols, self.place)


def _line(stroke: Any, where: str) -> Line:
    if not isinstance(stroke, Sequence) or isinstance(stroke, str) or not len(stroke):
        raise DataError(f"{where}: expected numbers [x0, y0, x1, y1, …]; got {_shown(stroke)}.")
    try:
        if isinstance(stroke[0], (list, tuple)):
            stroke = [number for x, y, *_ in stroke for number in (x, y)]
        if not all(issubclass(kind, Real) and not issubclass(kind, bool) for kind in set(map(type, stroke))):
            raise TypeError
        numbers = np.array(stroke, dtype=np.float64)
        if numbers.ndim != 1:
            raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{where}: expected numbers [x0, y0, x1, y1, …]; got {_shown(stroke)}.") from None
    if len(numbers) % 2:
        raise DataError(f"{where}: expected pairs of numbers, x and y; got {len(numbers)} numbers.")
    with np.errstate(over="ignore"):
        return numbers.reshape(-1, 2).astype(np.float32)


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)) and not value:
        return "an empty list"
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
