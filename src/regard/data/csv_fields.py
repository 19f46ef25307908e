"""Fields of CSV files: of any length, and quoted where it is needed."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def long_fields() -> Iterator[None]:
    """Within the block fields of CSV may have any length."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def csv_line(values: Sequence[str], delimiter: str = ",") -> str:
    """A row of CSV, without the end of its last line."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(values)
    return line.getvalue().removesuffix("\n")
