"""Numbers of several items: as arrays, and as a table with a row for each item."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self, get_args, get_type_hints

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
    """The columns before the figures."""

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """The numbers of all items together, by the names of the table's columns."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """A row for each item: its id and its figures."""

    def table(self) -> str:
        """The rows as TSV with a header; missing figures of an item are empty."""
        columns = [*self.first_columns, *self.figures()]
        lines = ["\t".join(columns)]
        lines += ["\t".join(_text(row.get(name, "")) for name in columns) for row in self.rows()]
        return "".join(f"{line}\n" for line in lines)

    def write(self, path: Path | str) -> Path:
        """Writes the table, atomically."""
        path = Path(path)
        replace_text(path, self.table())
        return path


class ItemArrays:
    """Base of dataclasses whose fields are arrays with an entry for each item."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(next(iter(self._arrays())))

    def __getitem__(self, index: int) -> Self:
        """The arrays of one item."""
        only = slice(index, index + 1 or None)
        return type(self)(*(array[only] for array in self._arrays()))

    def _arrays(self) -> list[NDArray[Any]]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]  # type: ignore[arg-type]

    @classmethod
    def none(cls) -> Self:
        """Arrays of no items, of the annotated types."""
        kinds = (get_args(get_args(hint)[1])[0] for hint in get_type_hints(cls).values())
        return cls(*(np.zeros(0, kind) for kind in kinds))

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """The items of several, in order."""
        return cls(*map(np.concatenate, zip(*(part._arrays() for part in (cls.none(), *parts)), strict=True)))


def mean_of_known(values: Iterable[float]) -> float:
    """The mean of the numbers that are not NaN; NaN without any."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _text(value: str | int | float) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.{DIGITS}g}"
    return str(value)
