"""Pairs from columns of Parquet files or of a data set that Hugging Face `datasets` has saved (extra `series`)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.spelling import suggestion
from regard.data.pairs import Pair, Pairs, shorten
from regard.data.table_rows import TAB
from regard.errors import ConfigError, DataError
from regard.lazy import optional

PARQUET = ".parquet"
STATE, SPLITS = "state.json", "dataset_dict.json"
"""Files in the folders of a data set and of several."""


def is_arrow(path: Path) -> bool:
    """Whether a path names a Parquet file, or a folder with a data set."""
    return path.suffix.lower() == PARQUET or os.path.isdir(path)


class ArrowPairs(Pairs):
    """Pairs from two columns of tables; the number of a pair is that of its row, from 1.

    Args:
        path: a Parquet file, a folder of them, or a folder with a data set of Hugging Face.
        source_fields: names or numbers of the columns of the source, or `translation.en` within one; several texts are
            joined by tabs.

    Raises:
        ConfigError: for columns that the first table does not have.
        DataError: for files that cannot be read.
    """

    def __init__(self, path: Path, *, source_fields: Sequence[str | int], target_field: str | int) -> None:
        self.path = path
        self._tables = _tables(path)
        self._ends = np.array(list(accumulate(size for size, _ in self._tables)), np.int64)
        self._kept: tuple[int, list[str], list[str]] | None = None
        self._fields = tuple(source_fields), target_field

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, index: int) -> Pair:
        (source,), (target,) = self.part(index, index + 1)
        return Pair(source, target, self.path, index + 1)

    def part(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        sources, targets = list[str](), list[str]()
        while start < stop:
            number = int(np.searchsorted(self._ends, start, "right"))
            first = int(self._ends[number]) - self._tables[number][0]
            last = min(stop, int(self._ends[number]))
            texts = self._texts(number, first)
            sources += texts[0][start - first : last - first]
            targets += texts[1][start - first : last - first]
            start = last
        return sources, targets

    def _texts(self, number: int, first: int) -> tuple[list[str], list[str]]:
        """The texts of a table; those of the last one are kept."""
        if self._kept is None or self._kept[0] != number:
            table = self._tables[number][1]()
            names, target = self._fields
            columns = [self._column(table, field, "source_field", first) for field in names]
            if len(columns) > 1:
                for column in columns:
                    if (row := next((i for i, text in enumerate(column) if TAB in text), None)) is not None:
                        raise DataError(
                            f"{self.path}:{first + row + 1}: {shorten(column[row])} has a tab, which separates columns "
                            "of a source; remove it."
                        )
                sources = [TAB.join(texts) for texts in zip(*columns, strict=True)]
            else:
                (sources,) = columns
            self._kept = number, sources, self._column(table, target, "target_field", first)
        return self._kept[1], self._kept[2]

    def _column(self, table: Any, field: str | int, key: str, first: int) -> list[str]:
        column, names = table, list(table.schema.names)
        steps = [field] if isinstance(field, int) or field in names else field.split(".")
        for number, step in enumerate(steps):
            here = names if number == 0 else [each.name for each in column.type] if _is_struct(column.type) else []
            if (isinstance(step, int) and step >= len(here)) or (isinstance(step, str) and step not in here):
                hint = suggestion(str(step), here, f"the columns are {', '.join(map(repr, here)) or 'none'}.")
                raise ConfigError(f"{self.path}: no column {field!r} (data.{key}); {hint}", ("data", key))
            if number == 0:
                column = column.column(here.index(step) if isinstance(step, str) else step)
            else:
                column = _compute().struct_field(column, step)
        texts: list[Any] = column.to_pylist()
        if (row := next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)) is not None:
            raise DataError(
                f"{self.path}:{first + row + 1}: column {field!r} (data.{key}) must be text; got {texts[row]!r:.60}."
            )
        return texts


def _tables(path: Path) -> list[tuple[int, Callable[[], Any]]]:
    """The number of rows of each table, and the function that reads it."""
    if not path.is_dir():
        return _of_parquet(path)
    if (path / SPLITS).is_file():
        names = json.loads((path / SPLITS).read_text(encoding="utf-8")).get("splits", [])
        raise DataError(f"{path} has several data sets ({', '.join(names)}); name one of them, {path / 'train'}.")
    if (path / STATE).is_file():
        return _of_dataset(path)
    files = sorted(path.glob(f"*{PARQUET}"))
    if not files:
        what = "a folder without Parquet files, and not a data set that `save_to_disk` has written"
        raise DataError(f"{path}: cannot be read: it is {what}.")
    return [table for file in files for table in _of_parquet(file)]


def _of_parquet(path: Path) -> list[tuple[int, Callable[[], Any]]]:
    parquet = optional("pyarrow.parquet", "Parquet files need", extra="series")
    arrow = optional("pyarrow", "Parquet files need", extra="series")
    try:
        file = parquet.ParquetFile(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except (OSError, arrow.ArrowInvalid) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None

    groups = range(file.metadata.num_row_groups)
    return [(file.metadata.row_group(i).num_rows, partial(file.read_row_group, i)) for i in groups]


def _of_dataset(path: Path) -> list[tuple[int, Callable[[], Any]]]:
    """The record batches of a data set that `save_to_disk` has written."""
    arrow = optional("pyarrow", "Data sets of Hugging Face need", extra="series")
    tables: list[tuple[int, Callable[[], Any]]] = []
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        files = [path / each["filename"] for each in state["_data_files"]]
        if state.get("_indices_files") or state.get("_indices_data_files"):
            raise DataError(f"{path} has rows that are chosen by indices; save flatten_indices() of the data set.")
        for file in files:
            with arrow.memory_map(str(file)) as mapped:
                for batch in arrow.ipc.open_stream(mapped):
                    tables.append((batch.num_rows, partial(_same, batch)))
    except (OSError, ValueError, KeyError, TypeError, arrow.ArrowInvalid) as error:
        raise DataError(f"{path}: cannot be read as a data set: {str(error).splitlines()[0]}") from None
    return [table for table in tables if table[0]]


def _same(table: Any) -> Any:
    return table


def _is_struct(kind: Any) -> bool:
    return bool(optional("pyarrow", "Parquet files need", extra="series").types.is_struct(kind))


def _compute() -> Any:
    return optional("pyarrow.compute", "Parquet files need", extra="series")
