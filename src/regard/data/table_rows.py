"""Random access to the rows of a table: tab-separated text, CSV, or another separator."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from regard.data.csv_fields import DELIMITERS, csv_rows, is_blank, named_delimiter
from regard.data.defects import item_or_defect
from regard.data.growing_array import BLOCK, GrowingArray
from regard.data.lines import Lines

TAB = "\t"


class AbstractRows(ABC):
    """The rows of a table, read by index."""

    kind: str
    """The separation of columns, for messages: `tab-separated`."""
    num_blank: int
    """The number of blank lines."""

    def __init__(self, path: Path, *, skip_blank: bool) -> None:
        self.lines = Lines(path, skip_blank=skip_blank)
        self.num_blank = self.lines.num_skipped

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows, including the first line."""

    @abstractmethod
    def __getitem__(self, index: int) -> list[str]:
        """The columns of a row."""

    @abstractmethod
    def number(self, index: int) -> int:
        """The line number of a row, from 1."""

    @abstractmethod
    def columns(self, start: int, stop: int, width: int) -> list[list[str]] | None:
        """The columns of the rows from one index to another; None if a row has another number than `width`."""


class SeparatedRows(AbstractRows):
    """A row per line; quotation marks have no special meaning."""

    def __init__(self, path: Path, separator: str) -> None:
        super().__init__(path, skip_blank=True)
        self.separator = separator
        self.kind = kind_of(separator)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> list[str]:
        return split_row(self.lines[index], self.separator)

    def columns(self, start: int, stop: int, width: int) -> list[list[str]] | None:
        lines = self.lines.part(start, stop)
        if self.separator != TAB:
            return _transposed([split_row(line, self.separator) for line in lines], width)
        if any(line.count(TAB) != width - 1 for line in lines):
            return None
        values = TAB.join(lines).split(TAB)
        return [values[column::width] for column in range(width)]

    def number(self, index: int) -> int:
        return self.lines.number(index)


def _transposed(rows: list[list[str]], width: int) -> list[list[str]] | None:
    return list(map(list, zip(*rows, strict=True))) if all(len(row) == width for row in rows) else None


def split_row(line: str, separator: str) -> list[str]:
    """The columns of a line; white space around separators other than a tab is removed."""
    columns = line.split(separator)
    return columns if separator == TAB else [column.strip() for column in columns]


def kind_of(separator: str) -> str:
    """The separation of columns in messages."""
    return "tab-separated" if separator == TAB else f"{separator.strip()!r}-separated"


class CsvRows(AbstractRows):
    """The rows of a CSV file; fields in double quotes may contain delimiters and line ends.

    The delimiter is the most frequent of `,` `;` tab `|` in the first line, or that of a line `sep=;` before it, as
    spreadsheets write it.
    """

    kind = "comma-separated"

    def __init__(self, path: Path) -> None:
        super().__init__(path, skip_blank=False)
        first = self.lines[0] if len(self.lines) else ""
        named = named_delimiter(first)
        self.delimiter = named or max(DELIMITERS, key=re.sub(r'"[^"]*"', "", first).count)
        starts = GrowingArray(np.int64)
        block = array("q")
        for number, row in self._rows(range(int(named is not None), len(self.lines)), self._readable):
            if is_blank(row):
                self.num_blank += 1
            else:
                block.append(number - 1)
            if len(block) == BLOCK:
                starts.add(np.array(block))
                block = array("q")
        starts.add(np.array([*block, len(self.lines)]))
        self._starts = starts.array()

    def _readable(self, index: int) -> str:
        """A line, or an empty text for a defect, whose row raises an error when it is read."""
        with item_or_defect:
            return self.lines[index]
        return ""

    def _rows(self, indices: range, line: Callable[[int], str]) -> Iterator[tuple[int, list[str]]]:
        lines = (f"{line(index)}\n" for index in indices)
        return csv_rows(lines, self.delimiter, str(self.lines.path), first=indices.start + 1)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: int) -> list[str]:
        lines = range(int(self._starts[index]), int(self._starts[index + 1]))
        _, row = next(self._rows(lines, self.lines.__getitem__))
        return row

    def columns(self, start: int, stop: int, width: int) -> list[list[str]] | None:
        first, last = int(self._starts[start]), int(self._starts[stop])
        lines = self.lines.part(first, last)
        rows = [
            row for _, row in self._rows(range(first, last), lambda index: lines[index - first]) if not is_blank(row)
        ]
        return _transposed(rows, width)

    def number(self, index: int) -> int:
        return int(self._starts[index]) + 1
