"""The cells of a CSV file of series: delimiter, header and numbers."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Literal

import numpy as np

from regard.data.csv_fields import DELIMITERS, named_delimiter
from regard.data.defects import item_or_defect
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.data.series.time_texts import formats_of, is_moment
from regard.errors import DataError

MISSING = frozenset(("", "na", "nan", "n/a", "#n/a", "<na>", "null", "none", "nil", "?", "-", "--", "."))
"""Texts for a missing value, in lower case."""
SAMPLE = 20
"""Lines that determine the delimiter."""
Decimal = Literal[".", ","]
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")
POINTS = re.compile(r"([+-]?\d{1,3}(?:[. \u00a0\u202f]\d{3})+)(,\d+)?")
COMMAS = re.compile(r"([+-]?\d{1,3}(?:,\d{3})+)(\.\d+)?")
"""Numbers with thousands separators, for a decimal comma and for a decimal point."""


@dataclass(frozen=True, slots=True)
class CellTable:
    """The lines of a CSV file as rows of cells.

    Args:
        header: the names of the columns; "column 1", "column 2", … without a header.
        first: the index of the first row's line.
        has_header: whether the names come from the file.
    """

    lines: Lines
    delimiter: str
    header: tuple[str, ...]
    first: int
    has_header: bool

    def __len__(self) -> int:
        return len(self.lines) - self.first

    def cells(self, row: int) -> list[str]:
        """The cells of a row.

        Raises:
            DataError: for unmatched quotation marks, or another number of cells than in the header.
        """
        index = row + self.first
        cells = cells_of(self.lines, index, self.delimiter)
        if len(cells) != len(self.header):
            first = "the header" if self.has_header else "the first line"
            raise DataError(
                f"{self.place(row)}: {len(cells)} columns; {first} has {len(self.header)}. {shorten(self.lines[index])}"
            )
        return cells

    def line(self, row: int) -> int:
        """The line number of a row in the file."""
        return self.lines.number(row + self.first)

    def place(self, row: int) -> str:
        """File and line of a row."""
        return f"{self.lines.path}:{self.line(row)}"


def open_table(lines: Lines, *, header: bool | None, time_format: str | None, names: Sequence[str] = ()) -> CellTable:
    """Finds delimiter and header of a file.

    A first line `sep=;` names the delimiter; otherwise it is the one that splits the first lines into as many cells as
    the header, most of them numbers. The first line is not a header if one of its cells is a date, or all are numbers.

    Args:
        lines: the file; not empty.
        header: whether there is a header; None if unknown.
        time_format: a format of `datetime.strptime`.
        names: columns that the caller uses; a first line with one of them is a header.
    """
    start = 0
    if delimiter := named_delimiter(lines[0]):
        start = 1
        if len(lines) == 1:
            raise DataError(f"{lines.path}: the file is empty after its first line; it needs a header and rows.")
    else:
        delimiter = _delimiter([lines[i] for i in range(min(SAMPLE, len(lines)))])
    first = [cell.strip() for cell in cells_of(lines, start, delimiter)]
    has_header = header
    if has_header is None:
        has_header = any(name in first for name in names) or not _is_data(first, delimiter, time_format)
    names = tuple(first) if has_header else tuple(f"column {i + 1}" for i in range(len(first)))
    return CellTable(lines, delimiter, names, start + has_header, has_header)


def cells_of(lines: Lines, index: int, delimiter: str) -> list[str]:
    """The cells of a line.

    Raises:
        DataError: for unmatched quotation marks.
    """
    cells = _split(lines[index], delimiter)
    if cells is None:
        raise DataError(f"{lines.path}:{lines.number(index)}: unmatched quotation marks: {shorten(lines[index])}")
    return cells


@dataclass(eq=False)
class NumberReader:
    """Reads cells as numbers.

    Cells that `float` cannot read are deferred until the end of the file, as other cells show whether commas are
    decimal marks.

    Args:
        names: the columns of the numbers.
        missing: further texts for missing values; numbers are replaced later.
        decimal: the decimal mark; None if unknown.
    """

    names: Sequence[str]
    missing: InitVar[Sequence[float | str]] = ()
    decimal: Decimal | None = None
    _deferred: list[tuple[int, int, str, str]] = field(default_factory=list)
    _point: tuple[str, str] | None = None
    """Place and text of the first cell with a decimal point."""

    def __post_init__(self, missing: Sequence[float | str]) -> None:
        self._missing = MISSING | {text.strip().lower() for text in missing if isinstance(text, str)}

    def read(self, row: int, column: int, cell: str, place: str) -> float:
        """The number of a cell; NaN if it is missing or deferred."""
        bare = cell.strip()
        if bare.lower() in self._missing:
            return np.nan
        try:
            number = math.nan if self.decimal == "," else float(bare)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self._deferred.append((row, column, bare, place))
            return number
        if not np.isfinite(number):
            raise self._not_finite(cell, column, place)
        if self._point is None and "." in bare:
            self._point = place, bare
        return number

    def finish(self, numbers: np.ndarray) -> str | None:
        """Fills in the deferred cells; returns a note about decimal commas.

        Raises:
            DataError: for the first cell that is not a number, and for ambiguous commas.
        """
        decimal: Decimal = self.decimal or self._inferred_decimal()
        for row, column, cell, place in self._deferred:
            with item_or_defect:  # which leaves a missing value
                numbers[row, column] = self._number(cell, column, place, decimal)
        return "numbers have decimal commas" if self.decimal is None and decimal == "," else None

    def _inferred_decimal(self) -> Decimal:
        """The decimal mark that fits the cells with commas."""
        with_comma = [item for item in self._deferred if "," in item[2] and is_number(item[2])]
        cells = [cell for _, _, cell, _ in with_comma]
        is_thousands = [COMMAS.fullmatch(cell) is not None for cell in cells]
        has_point = any(good and ("." in cell or cell.count(",") > 1) for cell, good in zip(cells, is_thousands))
        has_comma = any(not good and cell.count(",") == 1 for cell, good in zip(cells, is_thousands))
        if not cells or (not has_comma and (has_point or self._point)):
            return "."
        if has_comma and not has_point and not self._point:
            return ","
        _, column, cell, place = with_comma[0]
        other = f"; {self._point[1]!r} in {self._point[0]} has a point" if self._point else ""
        raise DataError(
            f"{place}: column {self.names[column]!r}: the comma in {shorten(cell)} may be a decimal mark or a "
            f"thousands separator{other}.\n"
            "  Set the decimal mark (data.decimal) to ',' or '.'; the other one then separates thousands."
        )

    def _number(self, cell: str, column: int, place: str, decimal: Decimal) -> float:
        pattern = POINTS if decimal == "," else COMMAS
        text = cell
        if thousands := pattern.fullmatch(cell):
            text = re.sub(r"[^\d+-]", "", thousands[1]) + (thousands[2] or "")
        if decimal == ",":
            text = text.replace(".", "?").replace(",", ".")
        try:
            number = float(text)
        except ValueError:
            number = np.nan
        if np.isnan(number) or "_" in cell:
            hint = (
                "\n  If it means a missing value, add it to data.missing_values; if the column names the series, set "
                "data.series."
            )
            hint = " Decimals need a point." if decimal == "." and "," in cell and NUMBER.fullmatch(cell) else hint
            raise DataError(
                f"{place}: column {self.names[column]!r}: {shorten(cell)} is not a number; a missing value is empty or "
                f"NA.{hint}"
            )
        if np.isinf(number):
            raise self._not_finite(cell, column, place)
        return number

    def _not_finite(self, cell: str, column: int, place: str) -> DataError:
        text = f"{shorten(cell)} is not finite; a missing value is empty or NA."
        return DataError(f"{place}: column {self.names[column]!r}: {text}")


def is_number(cell: str, *, comma: bool = True) -> bool:
    """Whether a cell is a number, with a decimal comma or point."""
    bare = cell.strip()
    return any(form.fullmatch(bare) for form in (NUMBER, POINTS, COMMAS)) and (comma or "," not in cell)


def _split(text: str, delimiter: str) -> list[str] | None:
    if '"' not in text:
        return text.split(delimiter)
    try:
        (cells,) = csv.reader([text], delimiter=delimiter, strict=True)
    except (csv.Error, ValueError):
        return None
    return cells


def _delimiter(texts: list[str]) -> str:
    best, chosen = (0.0, 0.0, 0), ","
    for delimiter in (*DELIMITERS[1:], ","):  # the comma last, as it may be a decimal mark
        rows = [_split(text, delimiter) or [] for text in texts]
        width = len(rows[0])
        if width < 2:
            continue
        data = [row for row in rows[1:] if len(row) == width]
        cells = [cell for row in data for cell in row[1:]]
        numbers = sum(is_number(cell, comma=delimiter != ",") or cell.strip().lower() in MISSING for cell in cells)
        score = (len(data) / max(1, len(rows) - 1), numbers / max(1, len(cells)), width)
        if score > best:
            best, chosen = score, delimiter
    return chosen


def _is_data(cells: list[str], delimiter: str, time_format: str | None) -> bool:
    """Whether the first line is a row rather than a header."""
    if all(is_number(cell, comma=delimiter != ",") for cell in cells):
        return True
    return sum(not is_number(cell) and is_time(cell, time_format) for cell in cells) == 1


def is_time(cell: str, time_format: str | None = None) -> bool:
    """Whether a cell is a time, in ISO 8601, the given format or a common one."""
    return is_moment(cell, time_format) or bool(formats_of([cell]))
