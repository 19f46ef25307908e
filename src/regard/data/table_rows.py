"""The rows of a table, read by index: tab-separated text, CSV, or texts with another separator."""

from __future__ import annotations

import csv
import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.data.columns import TAB
from regard.data.csv_fields import DELIMITERS, long_fields, named_delimiter
from regard.data.defects import item_or_defect
from regard.data.lines import Lines
from regard.errors import DataError


class Rows(ABC):
    """The rows of a table, read by index."""

    kind: str
    """How the columns are separated, for messages."""

    def __init__(self, path: Path, *, skip_blank: bool) -> None:
        self.lines = Lines(path, skip_blank=skip_blank)

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows, the first line included."""

    @abstractmethod
    def __getitem__(self, index: int) -> list[str]:
        """The columns of a row."""

    @abstractmethod
    def number(self, index: int) -> int:
        """The line of a row, from 1."""

    @property
    def num_blank(self) -> int:
        """How many blank lines there are."""
        return self.lines.num_skipped


class SeparatedRows(Rows):
    """A row per line; quotation marks have no special meaning.

    Args:
        path: the file.
        separator: a tab, or `|||`, around which white space does not count.
    """

    def __init__(self, path: Path, separator: str) -> None:
        super().__init__(path, skip_blank=True)
        self.separator = separator
        self.kind = "tab-separated" if separator == TAB else f"{separator!r}-separated"

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> list[str]:
        columns = self.lines[index].split(self.separator)
        return columns if self.separator == TAB else [column.strip() for column in columns]

    def number(self, index: int) -> int:
        return self.lines.number(index)


class CsvRows(Rows):
    """The rows of a CSV file; fields in double quotes may have delimiters and line ends in them.

    The delimiter is the one of `,` `;` tab `|` that the first line has most often, or that a line `sep=;` before it
    names, as spreadsheets write it.
    """

    kind = "comma-separated"

    def __init__(self, path: Path) -> None:
        super().__init__(path, skip_blank=False)
        begin = 0
        first = self.lines[0] if len(self.lines) else ""
        if named := named_delimiter(first):
            self.delimiter, begin = named, 1
        else:
            self.delimiter = max(DELIMITERS, key=re.sub(r'"[^"]*"', "", first).count)
        starts, self._num_blank = array("q"), 0
        with long_fields():
            rows = self._reader(map(self._readable, range(begin, len(self.lines))))
            start = begin
            while True:
                try:
                    row = next(rows, None)
                except csv.Error as error:
                    hint = "a quotation mark is not closed" if "unexpected end" in str(error) else str(error)
                    raise DataError(f"{path}:{start + 1}: not CSV: {hint}, in the row that begins here.") from None
                if row is None:
                    break
                if any(value.strip() for value in row) or len(row) > 1:
                    starts.append(start)
                else:
                    self._num_blank += 1
                start = begin + rows.line_num
        self._starts = (*starts, start)

    def _readable(self, index: int) -> str:
        """A line; nothing of one that is a defect, whose row is refused when it is read."""
        text = ""
        with item_or_defect:
            text = self.lines[index]
        return text

    def _reader(self, lines: Iterable[str]) -> Any:
        return csv.reader((f"{line}\n" for line in lines), delimiter=self.delimiter, strict=True)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: int) -> list[str]:
        with long_fields():
            lines = range(self._starts[index], self._starts[index + 1])
            return next(self._reader(map(self.lines.__getitem__, lines)))

    def number(self, index: int) -> int:
        return self._starts[index] + 1

    @property
    def num_blank(self) -> int:
        return self._num_blank
