"""Fields of CSV files: of any length, and quoted where it is needed."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from regard.errors import DataError

DELIMITERS = (",", ";", "\t", "|")
"""What may stand between the fields of a row."""


def named_delimiter(line: str) -> str | None:
    """The delimiter that a line `sep=;` before the rows names, as spreadsheets write it; None of other lines."""
    named = re.fullmatch(r"sep=(.)", line)
    return named and named[1]


@contextmanager
def long_fields(name: str = "") -> Iterator[None]:
    """Within the block fields of CSV may have any length; what is no CSV is a DataError that names the file."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    except csv.Error as error:
        if not name:
            raise
        raise DataError(f"{name}: not CSV: {str(error).partition(' - ')[0]}.") from None
    finally:
        csv.field_size_limit(before)


def csv_line(values: Sequence[str], delimiter: str = ",") -> str:
    """A row of CSV, without the end of its last line."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(values)
    return line.getvalue().removesuffix("\n")
