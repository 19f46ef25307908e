"""Time intervals of the phones or letters of recorded sentences, in memory and in tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.config.spelling import suggestion
from regard.data.defects import item_or_defect
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.errors import DataError

UNITS = ("phone", "letter")
"""Possible names of the column of units."""
ROUNDING = 0.0015
"""The largest overlap of neighbouring intervals, in seconds, as times are rounded to milliseconds."""


@dataclass(frozen=True, eq=False, slots=True)
class Intervals:
    """The units of a sentence with their time intervals, in order. A unit that is not heard has an empty interval.

    Args:
        units: S phones or letters.
        starts, ends: (S,) seconds.
    """

    units: tuple[str, ...]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Sequence[tuple[float, float, str]]) -> Intervals:
        """Intervals from rows of start, end and unit.

        >>> Intervals.of([(0.0, 0.25, "h"), (0.25, 0.5, "i")]).durations.tolist()
        [0.25, 0.25]
        """
        times = np.array([row[:2] for row in rows], np.float64).reshape(len(rows), 2)
        return cls(tuple(row[2] for row in rows), times[:, 0], times[:, 1])

    def __len__(self) -> int:
        return len(self.units)

    @property
    def durations(self) -> NDArray[np.float64]:
        """(S,) seconds."""
        return self.ends - self.starts

    @property
    def middles(self) -> NDArray[np.float64]:
        """(S,) seconds."""
        return (self.starts + self.ends) / 2

    @property
    def is_heard(self) -> NDArray[np.bool_]:
        """(S,) True where the interval is not empty."""
        return self.ends > self.starts

    def for_units(self, units: Sequence[str], *, place: str = "intervals") -> Intervals:
        """The intervals of a model's units: these, then empty intervals for further units such as an end symbol.

        Args:
            units: the input units of the model.
            place: the beginning of the error's text, for example file and sentence.

        Raises:
            DataError: if `units` does not begin with the units of the intervals.

        >>> Intervals.of([(0.0, 0.25, "h"), (0.25, 0.5, "i")]).for_units(["h", "i", "</s>"]).ends.tolist()
        [0.25, 0.5, 0.5]
        """
        units = tuple(units)
        if units[: len(self)] != self.units:
            at = next(i for i, (label, unit) in enumerate(zip_longest(self.units, units)) if label != unit)
            unit = shorten(units[at]) if at < len(units) else "no further unit"
            raise DataError(
                f"{place}: unit {at} of {len(self)} labels is {self.units[at]!r}; the model reads {unit}.\n"
                "  Labels and model need the same units (phones or letters) and the same normalisation."
            )
        rest = np.full(len(units) - len(self), self.ends[-1] if len(self) else 0.0)
        return Intervals(units, np.concatenate([self.starts, rest]), np.concatenate([self.ends, rest]))


def read_intervals(path: Path | str) -> dict[str, Intervals]:
    """The intervals of each sentence in a tab-separated table with a header and times in seconds.

    The columns are `id start end phone` or `id index start end letter`, in any order. A unit may be a blank. The rows
    of a sentence are adjacent and in order; `index` counts them from 0.

    Returns:
        Intervals by the sentence's id, in the order of the file.

    Raises:
        DataError: for a file that cannot be read or has other columns; for a row with another number of columns, a
            time that is not a number or before that of the row above, an end before the start, a wrong index, or no
            unit. The text names file, line, column and value.
    """
    lines = Lines(path)
    columns = lines[0].split("\t") if len(lines) else []
    unit = _unit_column(lines.path, columns)
    place = {name: columns.index(name) for name in ("id", "start", "end", unit)}
    index = columns.index("index") if "index" in columns else None
    sentences: dict[str, list[tuple[float, float, str]]] = {}
    current = None
    whole: dict[str, bool] = {}
    for number in range(2, len(lines) + 1):
        where, is_read = f"{lines.path}:{number}", False
        with item_or_defect:
            line = lines[number - 1]
            if not line:
                continue
            fields = line.split("\t")
            key = fields[min(place["id"], len(fields) - 1)]
            if key != current and len(fields) == len(columns):
                if key in sentences:
                    raise DataError(
                        f"{where}: id: {shorten(key)} has other rows above; put the rows of a sentence together."
                    )
                sentences[key], whole[key], current = [], True, key
            if len(fields) != len(columns):
                raise DataError(f"{where}: {len(fields)} columns in {shorten(line)}; the header has {len(columns)}.")
            rows = sentences[key]
            if index is not None and fields[index] != str(len(rows)):
                raise DataError(
                    f"{where}: index: expected {len(rows)}, the next of {key}; got {shorten(fields[index])}."
                )
            start, end = (_seconds(where, name, fields[place[name]]) for name in ("start", "end"))
            if end < start:
                raise DataError(f"{where}: end: {end:g} is before the start, {start:g}.")
            if rows and start < rows[-1][1] - ROUNDING:
                raise DataError(f"{where}: start: {start:g} is before the end of the row above, {rows[-1][1]:g}.")
            if not fields[place[unit]]:
                raise DataError(f"{where}: {unit}: the field is empty.")
            rows.append((start, end, fields[place[unit]]))
            is_read = True
        if not is_read and current is not None:  # the sentence is left out, but its further rows are still checked
            whole[current] = False
            last = sentences[current][-1][1] if sentences[current] else 0.0
            sentences[current].append((last, last, ""))
    return {key: Intervals.of(rows) for key, rows in sentences.items() if whole[key]}


def _unit_column(path: Path, columns: list[str]) -> str:
    for name in ("id", "start", "end"):
        if name not in columns:
            raise DataError(
                f"{path}:1: expected a header with the columns id, start, end and phone or letter, separated by tabs; "
                f"{name} is missing in {shorten(chr(9).join(columns))}: {suggestion(name, columns)}"
            )
    units = [name for name in UNITS if name in columns]
    if len(units) != 1:
        raise DataError(f"{path}:1: expected one column phone or letter; the columns are {', '.join(columns)}.")
    return units[0]


def _seconds(where: str, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise DataError(f"{where}: {column}: expected seconds, 0 or more; got {shorten(text)}.")
    return value
