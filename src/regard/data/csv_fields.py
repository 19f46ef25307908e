"""Fields of CSV files may have any length."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def long_fields() -> Iterator[None]:
    """Within the block fields of CSV may have any length."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)
