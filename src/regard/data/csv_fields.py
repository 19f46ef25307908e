"""Rows of CSV: with fields of any length, the delimiter of a file, and rows that are written."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

from regard.errors import DataError

DELIMITERS = (",", ";", "\t", "|")
"""What may stand between the fields of a row."""
LONGEST = 2**31 - 1
"""Characters of a field that are read."""


def named_delimiter(line: str) -> str | None:
    """The delimiter that a line `sep=;` before the rows names, as spreadsheets write it; None of other lines."""
    named = re.fullmatch(r" *sep=([^ ]) *", line, re.IGNORECASE)
    return named and named[1]


def csv_rows(
    lines: Iterable[str], delimiter: str, name: str, *, first: int = 1, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Rows, each with the number of the line in which it begins.

    Args:
        lines: with their ends.
        name: of the file, for messages.
        first: the number of the first line.
        strict: whether quotation marks that do not match are refused.

    Raises:
        DataError: for what is no CSV.
    """
    rows, number = csv.reader(lines, delimiter=delimiter, strict=strict), first
    while True:
        limit = csv.field_size_limit(LONGEST)
        try:
            row = next(rows, None)
        except csv.Error as error:
            text = str(error).partition(" - ")[0]
            what = "a quotation mark is not closed" if text.startswith("unexpected end") else text
            raise DataError(f"{name}:{number}: not CSV: {what}, in the row that begins here.") from None
        finally:
            csv.field_size_limit(limit)
        if row is None:
            return
        yield number, row
        number = first + rows.line_num


def is_blank(row: Sequence[str]) -> bool:
    """Whether a row of CSV is that of a blank line."""
    return not any(value.strip() for value in row) and len(row) < 2


def csv_line(values: Iterable[object], delimiter: str = ",") -> str:
    """A row of CSV, without the end of its last line."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\r\n").writerow(values)  # so that either end is quoted
    return line.getvalue().removesuffix("\r\n")
