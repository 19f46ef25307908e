"""Numbers of several items: as arrays, and as a table with a row for each beside the figures of all together."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from regard.files import replace_text

DIGITS = 5
"""The significant digits of a number in a table."""
Row = dict[str, str | int | float]


class AbstractScores(ABC):
    """Numbers of several items: `print(scores)`, `scores.figures()`, and `scores.write(path)` for a table."""

    __slots__ = ()
    first_columns: ClassVar[tuple[str, ...]] = ("id",)
    """Those before the figures."""

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """The numbers of all items together, by the names of the table's columns."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """A row for each item: its id and its figures."""

    def table(self) -> str:
        """The rows as TSV with a header; a figure that an item lacks is empty, one that all lack has no column."""
        columns = [*self.first_columns, *self.figures()]
        lines = ["\t".join(columns)]
        lines += ["\t".join(_text(row.get(name, "")) for name in columns) for row in self.rows()]
        return "".join(f"{line}\n" for line in lines)

    def write(self, path: Path | str) -> Path:
        """Writes the table; it appears whole, in the place of what was there."""
        path = Path(path)
        replace_text(path, self.table())
        return path


class ItemArrays(ABC):
    """Base of dataclasses whose fields are arrays with an entry for each item."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(next(iter(self._arrays())))

    def __getitem__(self, index: int) -> Self:
        """Those of one item."""
        only = slice(index, index + 1 or None)
        return type(self)(*(array[only] for array in self._arrays()))

    def _arrays(self) -> list[NDArray[Any]]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]  # type: ignore[arg-type]

    @classmethod
    @abstractmethod
    def none(cls) -> Self:
        """That of no items."""

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """All items of several, in order."""
        return cls(*map(np.concatenate, zip(*(part._arrays() for part in (cls.none(), *parts)), strict=True)))


def mean_of_known(values: Iterable[float]) -> float:
    """The mean without what is NaN; NaN if nothing is left."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _text(value: str | int | float) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.{DIGITS}g}"
    return str(value)
