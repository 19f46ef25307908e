"""Inputs of a prediction, with the line of the file that each is from: lines, or columns and fields of a table."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from regard.data.columns import TAB
from regard.data.csv_fields import long_fields
from regard.data.jsonl import field_of, parse
from regard.errors import ConfigError, DataError

DELIMITERS = (",", ";", TAB, "|")
"""Between the columns of a CSV file: the first one by which its header has the fields of the input."""
InputFormat = Literal["lines", "csv", "tsv", "jsonl"]
Fields = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class InputRow:
    """An input with what stands beside it.

    Args:
        place: file and line, shown in messages.
        text: the input: a text, or what the model's `predict` takes.
        kept: the columns of the line, or its JSON value, which are written beside the output; None for a plain text.
        refusal: why the line has no input; empty if it has one.
    """

    place: str
    text: Any
    kept: Any = None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class InputTable:
    """How the inputs of a file in the form of the training files are read.

    Args:
        description: what is read, for the user: `sentences of CoNLL-U: the tokens in column 1`.
        rows: makes rows of the lines of the file, lazily; its second argument is the file's name, for places.
        format: how outputs are printed unless another format is chosen; None: as for other files.
    """

    description: str
    rows: Callable[[Iterable[str], str], Iterator[InputRow]]
    format: str | None = None


def read_inputs(
    lines: Iterable[str],
    name: str,
    format: InputFormat,
    fields: Fields | None,
    trained: Fields,
    note: Callable[[str], object] = lambda text: None,
) -> Iterator[InputRow]:
    """The rows of a file or of stdin, read one by one.

    Args:
        lines: the lines.
        name: the beginning of places.
        format: how they are read.
        fields: the fields of the input in this file. If None, those of the training data, or all columns if there are
            only as many.
        trained: the fields of the training data, one for each column of the model's inputs.
        note: is told what the reader should know.

    Raises:
        DataError: for a line that is not JSON, or a first line without these fields.
        ConfigError: if the number of fields is not that of the model's columns.
    """
    if fields is not None and len(fields) != len(trained):
        expected = f"{len(trained)} columns" if len(trained) > 1 else "one column"
        raise ConfigError(f"--source-field lists {len(fields)}, but the model's input has {expected}.")
    numbered = ((f"{name}:{number}", line) for number, line in enumerate(lines, start=1))
    names = [field for field in (trained if fields is None else fields) if isinstance(field, str)]
    if format == "csv" and (names or fields is not None):
        return _columns_of_csv(lines, name, trained if fields is None else fields)
    if format in ("lines", "csv"):
        return (InputRow(place, line) for place, line in _checked(numbered, note))
    if format == "jsonl":
        return _fields_of_json(numbered, trained if fields is None else fields)
    return _columns(numbered, fields, trained)


def _checked(numbered: Iterable[tuple[str, str]], note: Callable[[str], object]) -> Iterator[tuple[str, str]]:
    """The lines, with a message if the first looks like JSON or TSV."""
    for index, (place, line) in enumerate(numbered):
        if index == 0 and line.startswith("{") and line.rstrip().endswith("}"):
            note(f"{place}: read as plain text, although it looks like JSON; use --source-field NAME to read a field.")
        elif index == 0 and TAB in line:
            note(f"{place}: read as plain text, although it has a tab; use --source-field 0 to read the first column.")
        yield place, line


def _columns(numbered: Iterable[tuple[str, str]], fields: Fields | None, trained: Fields) -> Iterator[InputRow]:
    chosen: list[int] | None = None
    names = trained if fields is None else fields
    for place, line in numbered:
        columns = line.split(TAB)
        if not line.strip():
            yield InputRow(place, "", columns)
            continue
        if chosen is None and (header := _named(columns, names)) is not None:
            chosen = header
            continue
        if chosen is None:
            chosen = _chosen(place, len(columns), fields, trained)
        needed = max(chosen) + 1
        if len(columns) < needed:
            yield InputRow(place, "", columns, f"expected {needed} columns or more; got {len(columns)}")
        else:
            yield InputRow(place, TAB.join(columns[i] for i in chosen), columns)


def _chosen(place: str, count: int, fields: Fields | None, trained: Fields) -> list[int]:
    """The columns of the input, of a line with `count` columns."""
    numbers = [field for field in (trained if fields is None else fields) if isinstance(field, int)]
    if len(numbers) == len(trained) and max(numbers) < count:
        return numbers
    if fields is None and count == len(trained):
        return list(range(count))
    if len(numbers) < len(trained):
        raise ConfigError(
            "The columns of a TSV file have no names; give their numbers, for example --source-field 0,2."
        )
    shown = ", ".join(map(str, numbers))
    raise DataError(
        f"{place}: {count} tab-separated column{'s' * (count > 1)}, but the input is in {shown}, counted from 0.\n"
        "  Give the columns of the input, for example --source-field 0,1."
    )


def _named(header: Sequence[str], fields: Fields) -> list[int] | None:
    """The numbers of named columns; None if the line is not a header that has them all."""
    names = [name.strip() for name in header]
    if any(field not in names for field in fields):
        return None
    return [names.index(str(field)) for field in fields]


def _columns_of_csv(lines: Iterable[str], name: str, fields: Fields) -> Iterator[InputRow]:
    """The rows of a CSV file, whose header names the columns unless fields are numbers."""
    first, rest = _first(lines)
    names = [field for field in fields if isinstance(field, str)]
    chosen, delimiter = None, next((each for each in DELIMITERS if each in first), DELIMITERS[0])
    if names:
        headers = {each: next(csv.reader([first], delimiter=each), []) for each in DELIMITERS}
        found = ((each, _named(header, fields)) for each, header in headers.items())
        delimiter, chosen = next(((each, columns) for each, columns in found if columns), (delimiter, None))
        if chosen is None:
            there = ", ".join(map(repr, headers[delimiter])) or "none"
            missing = ", ".join(repr(field) for field in fields if field not in headers[delimiter])
            raise DataError(
                f"{name}:1: no column {missing}; there are {there}.\n  Give the input's: --source-field NAME."
            )
    rows, last = csv.reader((f"{line}\n" for line in rest), delimiter=delimiter), 0
    columns = chosen or [int(field) for field in fields]
    with long_fields():
        for number, row in enumerate(rows):
            place, last = f"{name}:{last + 1}", rows.line_num
            if not row or (names and number == 0):
                continue
            if max(columns) < len(row):
                yield InputRow(place, TAB.join(row[i] for i in columns), row)
            else:
                yield InputRow(place, "", row, f"expected {max(columns) + 1} columns or more; got {len(row)}")


def _first(lines: Iterable[str]) -> tuple[str, Iterator[str]]:
    """The first line, and all lines."""
    every = iter(lines)
    first = next(every, "")
    return first, chain([first], every)


def _fields_of_json(numbered: Iterable[tuple[str, str]], fields: Fields) -> Iterator[InputRow]:
    first = True
    for place, line in numbered:
        if not line.strip():
            continue
        value = parse(line, place)
        try:
            columns = [field_of(value, field, "source_field", place) for field in fields]
        except DataError as error:
            if first:
                raise DataError(f"{error}\n  Give the fields of the input: --source-field NAME.") from None
            yield InputRow(place, "", value, str(error).removeprefix(f"{place}: "))
            continue
        finally:
            first = False
        yield InputRow(place, TAB.join(columns), value)
