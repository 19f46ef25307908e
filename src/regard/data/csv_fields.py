"""Reading and writing rows of CSV, and the delimiter that a file names."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

from regard.errors import DataError

DELIMITERS = (",", ";", "\t", "|")
LONGEST = 2**31 - 1
"""The most characters of a field."""


def named_delimiter(line: str) -> str | None:
    """The delimiter in a line `sep=;`, which spreadsheets write before the rows; None for other lines."""
    named = re.fullmatch(r" *sep=([^ ]) *", line, re.IGNORECASE)
    return named and named[1]


def csv_rows(
    lines: Iterable[str], delimiter: str, name: str, *, first: int = 1, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Rows, each with the number of the line in which it begins.

    Args:
        lines: with their ends.
        name: the file's name, for messages.
        first: the number of the first line.
        strict: whether unmatched quotation marks are errors.

    Raises:
        DataError: for malformed CSV.
    """
    rows, number = csv.reader(lines, delimiter=delimiter, strict=strict), first
    while True:
        limit = csv.field_size_limit(LONGEST)
        try:
            row = next(rows, None)
        except csv.Error as error:
            text = str(error).partition(" - ")[0]
            problem = "a quotation mark is not closed" if text.startswith("unexpected end") else text
            raise DataError(f"{name}:{number}: not CSV: {problem}, in the row that begins here.") from None
        finally:
            csv.field_size_limit(limit)
        if row is None:
            return
        yield number, row
        number = first + rows.line_num


def is_blank(row: Sequence[str]) -> bool:
    """Whether a row of CSV comes from a blank line."""
    return not any(value.strip() for value in row) and len(row) < 2


def csv_line(values: Iterable[object], delimiter: str = ",") -> str:
    """A row of CSV without its line end."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\r\n").writerow(values)  # so that either end is quoted
    return line.getvalue().removesuffix("\r\n")
