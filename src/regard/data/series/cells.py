"""The cells of a table of series: which character separates them, whether there is a header, and which are numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Literal

import numpy as np

from regard.data.csv_fields import DELIMITERS, named_delimiter
from regard.data.defects import item_or_defect
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.data.series.time_texts import formats_of, read_moment
from regard.errors import DataError

MISSING = frozenset(("", "na", "nan", "n/a", "#n/a", "<na>", "null", "none", "nil", "?", "-", "--", "."))
"""What stands for a missing value, in lower case."""
SAMPLE = 20
"""Lines from which delimiter and header are found."""
Decimal = Literal[".", ","]
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")
POINTS = re.compile(r"([+-]?\d{1,3}(?:[. \u00a0\u202f]\d{3})+)(,\d+)?")
COMMAS = re.compile(r"([+-]?\d{1,3}(?:,\d{3})+)(\.\d+)?")
"""Numbers with a separator of thousands, of a decimal comma and of a decimal point."""


@dataclass(frozen=True, slots=True)
class Table:
    """The lines of a CSV file as rows of cells.

    Args:
        delimiter: what separates cells.
        header: the names of the columns; as they stand there, or "column 1", "column 2", … without a header.
        first: the line of the first row, counted from 0.
        has_header: whether names stand in the file.
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
            DataError: for quotation marks that do not match, and another number of cells than the header has.
        """
        index = row + self.first
        cells = cells_of(self.lines, index, self.delimiter)
        if len(cells) != len(self.header):
            has = "the header" if self.has_header else "the first line"
            raise DataError(
                f"{self.place(row)}: {len(cells)} columns; {has} has {len(self.header)}. {shorten(self.lines[index])}"
            )
        return cells

    def line(self, row: int) -> int:
        """The number of a row's line in the file."""
        return self.lines.number(row + self.first)

    def place(self, row: int) -> str:
        """File and line of a row."""
        return f"{self.lines.path}:{self.line(row)}"


def open_table(lines: Lines, *, header: bool | None, time_format: str | None, names: Sequence[str] = ()) -> Table:
    """Finds delimiter and header of a file.

    A first line `sep=;` names the delimiter; otherwise it is the one with which the first lines have as many cells as
    the header, and these are numbers. The first line is no header if one of its cells is a date, or all are numbers.

    Args:
        lines: the file; not empty.
        header: whether there is a header, if that is known.
        time_format: of `datetime.strptime`.
        names: columns that the caller names; a first line with one of them is a header.
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
    return Table(lines, delimiter, names, start + has_header, has_header)


def cells_of(lines: Lines, index: int, delimiter: str) -> list[str]:
    """The cells of a line.

    Raises:
        DataError: for quotation marks that do not match.
    """
    cells = _split(lines[index], delimiter)
    if cells is None:
        text = shorten(lines[index])
        raise DataError(f"{lines.path}:{lines.number(index)}: quotation marks do not match: {text}")
    return cells


@dataclass(eq=False)
class NumberReader:
    """Reads cells as numbers.

    Cells that `float` does not read are kept until the file is read, since the other cells tell whether commas are
    decimal.

    Args:
        names: the columns of the numbers.
        delimiter: of the file; a comma for other files.
        missing: further texts, and numbers, which are not read here, that stand for a missing value.
        decimal: the decimal mark, if it is known.
    """

    names: Sequence[str]
    delimiter: str
    missing: InitVar[Sequence[float | str]] = ()
    decimal: Decimal | None = None
    _odd: list[tuple[int, int, str, str]] = field(default_factory=list)
    _point: tuple[str, str] | None = None
    """Place and text of the first cell with a decimal point."""

    def __post_init__(self, missing: Sequence[float | str]) -> None:
        self._missing = MISSING | {text.strip().lower() for text in missing if isinstance(text, str)}

    def read(self, row: int, column: int, cell: str, place: str) -> float:
        """The number of a cell; NaN if it is missing, or read later."""
        bare = cell.strip()
        if bare.lower() in self._missing:
            return np.nan
        if self.decimal == ",":
            self._odd.append((row, column, bare, place))
            return np.nan
        try:
            number = float(bare)
        except ValueError:
            self._odd.append((row, column, bare, place))
            return np.nan
        if not np.isfinite(number):
            raise self._not_finite(cell, column, place)
        if self._point is None and "." in bare:
            self._point = place, bare
        return number

    def finish(self, numbers: np.ndarray) -> str | None:
        """Fills in the cells that were kept; returns a note about decimal commas.

        Raises:
            DataError: for the first cell that is no number, and for commas that may mean two things.
        """
        decimal: Decimal = self.decimal or self._found_decimal()
        for row, column, cell, place in self._odd:
            with item_or_defect:  # which leaves a missing value
                numbers[row, column] = self._number(cell, column, place, decimal)
        return "numbers have decimal commas" if self.decimal is None and decimal == "," else None

    def _found_decimal(self) -> Decimal:
        """The decimal mark, as the cells with commas have it."""
        with_comma = [item for item in self._odd if "," in item[2] and is_number(item[2])]
        cells = [cell for _, _, cell, _ in with_comma]
        is_thousands = [COMMAS.fullmatch(cell) is not None for cell in cells]
        has_point = any(good and ("." in cell or cell.count(",") > 1) for cell, good in zip(cells, is_thousands))
        has_comma = any(not good and cell.count(",") == 1 for cell, good in zip(cells, is_thousands))
        if not cells or (not has_comma and (has_point or self._point)):
            return "."
        if has_comma and not has_point and not self._point:
            return ","
        _, column, cell, place = with_comma[0]
        other = f"; {self._point[1]!r} of {self._point[0]} has a point" if self._point else ""
        of = f"{place}: column {self.names[column]!r}"
        raise DataError(
            f"{of}: whether the comma of {shorten(cell)} is decimal is unclear{other}.\n"
            "  Name the decimal mark (data.decimal): ',' or '.'; the other one then separates thousands."
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
                "\n  If it stands for a missing value, name it (data.missing_values); a column may name the series "
                "(data.series)."
            )
            hint = " Decimals need a point." if decimal == "." and "," in cell and NUMBER.fullmatch(cell) else hint
            raise DataError(
                f"{place}: column {self.names[column]!r}: {shorten(cell)} is no number; a missing value is empty or "
                f"NA.{hint}"
            )
        if np.isinf(number):
            raise self._not_finite(cell, column, place)
        return number

    def _not_finite(self, cell: str, column: int, place: str) -> DataError:
        of = f"{place}: column {self.names[column]!r}"
        return DataError(f"{of}: {shorten(cell)} is not finite; a missing value is empty or NA.")


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
    best, found = (0.0, 0.0, 0), ","
    for delimiter in (*DELIMITERS[1:], ","):  # a comma if it is no better: it may be decimal
        rows = [_split(text, delimiter) or [] for text in texts]
        width = len(rows[0])
        if width < 2:
            continue
        data = [row for row in rows[1:] if len(row) == width]
        cells = [cell for row in data for cell in row[1:]]
        numbers = sum(is_number(cell, comma=delimiter != ",") or cell.strip().lower() in MISSING for cell in cells)
        score = (len(data) / max(1, len(rows) - 1), numbers / max(1, len(cells)), width)
        if score > best:
            best, found = score, delimiter
    return found


def _is_data(cells: list[str], delimiter: str, time_format: str | None) -> bool:
    """Whether a first line is a row and no header."""
    if all(is_number(cell, comma=delimiter != ",") for cell in cells):
        return True
    dates = sum(not is_number(cell) and _is_time(cell, time_format) for cell in cells)
    return dates == 1


def _is_time(cell: str, time_format: str | None) -> bool:
    try:
        read_moment(cell, time_format)
    except (ValueError, IndexError):
        return bool(formats_of([cell]))
    return True
