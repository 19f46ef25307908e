"""Data of Python, such as pandas tables and lists of pairs, as rows, and in files that are read like those of users."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from regard.config.spelling import suggestion
from regard.errors import DataError, counted, first_of


@dataclass(frozen=True, slots=True)
class WrittenData:
    """A file that data of Python were written into.

    Args:
        path: the file, or the table in a folder of its own.
        name: the name of the data in messages, such as `train`.
        lines: the line of the file in which each item begins.
        form: keys of the configuration that describe such a file, by dotted key; what a configuration leaves open is
            recognised from the file.
        settings: further keys with which it has to be read.
    """

    path: Path
    name: str
    lines: Sequence[int]
    form: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def keys(self) -> dict[str, Any]:
        """The form and the settings."""
        return {**self.form, **self.settings}

    def place(self, line: int) -> str:
        """The item in which a line of the file is, such as `train[3]`."""
        return f"{self.name}[{max(bisect_right(self.lines, line) - 1, 0)}]"


@dataclass(frozen=True)
class DataRows:
    """Rows of values.

    Args:
        name: of the data in messages, such as `train`; items are `train[0]` and so on.
        names: of the columns; None if they have only numbers.
        rows: a sequence of values for each item; values that are missing are None.
    """

    name: str
    names: tuple[str, ...] | None
    rows: Sequence[Sequence[Any]]

    def columns(self, fields: Sequence[str | int], what: str, *, known: Sequence[Sequence[str]] = ()) -> list[int]:
        """The numbers of the columns of fields: those of their names or numbers, else all in the order of the fields.

        Args:
            fields: names, or numbers counted from 0.
            what: an item in a message, such as `an input and its output`.
            known: names that a table may have in any order, if the fields are numbers.

        Raises:
            DataError: for other columns; the text has those of the data.
        """
        width = len(self.names) if self.names is not None else len(self.rows[0])
        shown = "" if self.names is None else f" ({first_of(list(map(repr, self.names)), 10)})"
        if self.names is not None and any(isinstance(field, str) for field in fields):
            for field in fields:
                if field not in self.names:
                    columns = f"the columns are {first_of(list(map(repr, self.names)), 10)}."
                    raise DataError(f"{self.name}: no column {field!r}; {suggestion(str(field), self.names, columns)}")
            return [self.names.index(str(field)) for field in fields]
        for order in known:
            if self.names is not None and sorted(order) == sorted(self.names) and len(order) == len(fields):
                return [self.names.index(name) for name in order]
        numbers = [field for field in fields if isinstance(field, int)]
        is_chosen = len(numbers) == len(fields) and numbers != list(range(len(fields)))
        if is_chosen and max(numbers) < width:
            return numbers
        if width == len(fields):
            return list(range(width))
        raise DataError(
            f"{self.name} has {counted(width, 'column|columns')}{shown}, but an item is {what}. Select these columns "
            "in this order, or name them in the configuration."
        )

    def selected(self, columns: Sequence[int]) -> Iterator[tuple[str, list[Any]]]:
        """The place of every item, and its values in these columns.

        Raises:
            DataError: for a row of another length than the first.
        """
        for number, row in enumerate(self.rows):
            place = f"{self.name}[{number}]"
            if len(row) != len(self.rows[0]):
                raise DataError(f"{place} has {len(row)} values, and {self.name}[0] has {len(self.rows[0])}.")
            yield place, [row[column] for column in columns]


def record_of(fields: Sequence[str | int], values: Sequence[Any]) -> Any:
    """A JSON value with these fields: an object if they have names (with objects inside for `a.b`), else a list.

    >>> record_of(["word", "text.en"], ["a", "b"]), record_of([2, 0], ["a", "b"])
    ({'word': 'a', 'text': {'en': 'b'}}, ['b', None, 'a'])
    """
    if not any(isinstance(field, str) for field in fields):
        numbered = dict(zip(fields, values, strict=True))
        return [numbered.get(number) for number in range(max(map(int, fields)) + 1)]
    record: dict[str, Any] = {}
    for path, value in zip(fields, values, strict=True):
        *sections, name = str(path).split(".")
        inner = record
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    return record


def table_of(data: Any, name: str) -> DataRows:
    """The rows of data.

    Args:
        data: a table of pandas or polars; a dict of columns; a list of dicts, of lists or tuples, or of single values;
            or an array.
        name: of the data in messages.

    Raises:
        DataError: for empty data, and other objects.

    >>> table_of([("a", 1), ("b", None)], "train").rows
    [['a', 1], ['b', None]]
    >>> table_of({"word": ["a", "b"], "sound": ["A", "B"]}, "train").names
    ('word', 'sound')
    """
    names: Sequence[Any] | None = None
    rows: list[Sequence[Any]]
    if isinstance(data, str | bytes | os.PathLike) or not (isinstance(data, Iterable) or hasattr(data, "iter_rows")):
        kind = f"{data!r:.60}, of type {_kind(data)}"
        raise DataError(f"{name}: expected a table, a list of items or a file; got {kind}.")
    if hasattr(data, "itertuples"):
        names, rows = list(data.columns), list(data.itertuples(index=False, name=None))
    elif hasattr(data, "iter_rows"):  # polars
        names, rows = list(data.columns), list(data.iter_rows())
    elif isinstance(data, Mapping):
        if (single := next((key for key, column in data.items() if _is_single(column)), None)) is not None:
            raise DataError(f"{name}: column {single!r} is {data[single]!r:.60}; expected a list of values.")
        columns = [list(column) for column in data.values()]
        if len({len(column) for column in columns}) > 1:
            sizes = ", ".join(f"{key!r} {len(column):,}" for key, column in zip(data, columns, strict=True))
            raise DataError(f"{name}: the columns have different lengths: {sizes}.")
        names, rows = list(data), list(zip(*columns, strict=True))
    else:
        items = list(data)
        if items and all(isinstance(item, Mapping) for item in items):
            names = list(dict.fromkeys(key for item in items for key in item))
            rows = [[item.get(key) for key in names] for item in items]
        else:
            rows = [[item] if _is_single(item) else list(item) for item in items]
    if not rows:
        raise DataError(f"{name} is empty: there are no items.")
    repeated = [each for each in names or () if list(names or ()).count(each) > 1]
    if repeated:
        raise DataError(f"{name}: several columns have the name {str(repeated[0])!r}.")
    return DataRows(
        name, None if names is None else tuple(map(str, names)), [[plain_value(value) for value in row] for row in rows]
    )


def plain_value(value: Any) -> Any:
    """A value without the types of numpy and pandas; None for a missing one."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        value = (value.astype("datetime64[us]") if value.dtype.kind == "M" else value).tolist()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return None if isinstance(value, float) and value != value else value


def text_at(value: Any, place: str, what: str) -> str:
    """A text of the data.

    Raises:
        DataError: for another value; the text has the place.
    """
    if isinstance(value, str):
        return value
    shown = "is missing" if value is None else f"is {value!r:.60}, of type {_kind(value)}"
    raise DataError(f"{place}: {what} {shown}; expected a text.")


def cell(value: Any, decimal: str = ".") -> str:
    """A value as the cell of a CSV file; a missing one is empty."""
    if value is None:
        return ""
    if isinstance(value, datetime | date):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, bool):
        return str(int(value))
    return repr(value).replace(".", decimal) if isinstance(value, float) else str(value)


def write_lines(path: Path, lines: Iterable[tuple[str, str]]) -> None:
    """Writes lines, each of which comes with the place of its item.

    Raises:
        DataError: for a text with half of a surrogate pair.
    """
    with path.open("wb") as file:
        for place, line in lines:
            try:
                file.write(line.encode() + b"\n")
            except UnicodeEncodeError:
                raise DataError(f"{place}: a text has half of a surrogate pair, which UTF-8 cannot express.") from None


def write_records(path: Path, records: Iterable[tuple[str, Any]]) -> None:
    """Writes JSON values, one per line, as `write_lines`."""
    write_lines(path, ((place, json.dumps(record, ensure_ascii=False)) for place, record in records))


def _is_single(item: Any) -> bool:
    """Whether an item is a value, not a row of values."""
    return isinstance(item, str | bytes | os.PathLike | int | float) or not isinstance(item, Iterable)


def _kind(value: Any) -> str:
    return type(value).__name__
