"""The inputs of a prediction: texts, lines, or columns and fields that are written beside the output."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from regard.cli.standard import say
from regard.errors import ConfigError, DataError

STDIN = Path("-")
CHUNK_ROWS = 2000
"""Inputs that are decoded before their outputs are written; on a terminal every line is decoded at once."""
CHUNK_CHARACTERS = 1 << 20
TAB = "\t"
DELIMITERS = (",", ";", TAB, "|")
"""Between the columns of a CSV file: the first one by which its header has the fields of the input."""
Format = Literal["lines", "csv", "tsv", "jsonl"]
Fields = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """An input with the line that it is from.

    Args:
        place: shown in messages.
        text: the input.
        kept: the columns of the line, or its JSON value; None for a plain text.
        refusal: why the line has no input; empty if it has one.
    """

    place: str
    text: str
    kept: Any = None
    refusal: str = ""


def format_of(path: Path, fields: Fields | None, *, num_columns: int) -> Format:
    """The format of a file, by its suffix. A file with another suffix is JSONL if fields have names, and TSV if fields
    have numbers or the model's inputs have several columns."""
    if fields is not None and any(isinstance(field, str) for field in fields):
        default: Format = "jsonl"
    else:
        default = "tsv" if fields is not None or num_columns > 1 else "lines"
    return by_suffix(path) or default


def by_suffix(path: Path) -> Literal["tsv", "csv", "jsonl"] | None:
    """The format that a file's suffix names, as for files of pairs."""
    from regard.data import readers

    return readers.by_suffix(path)


def parse_fields(text: str | None, option: str = "--source-field") -> Fields | None:
    """The fields of `--source-field 0,2`; numbers count columns from 0."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ConfigError(f"{option} {text!r}: give columns counted from 0, for example 0,2, or names of fields.")
    return tuple(int(name) if name.isdecimal() else name for name in names)


def texts(arguments: Sequence[str]) -> Iterator[Row]:
    """The rows of the command's arguments."""
    return (Row(f"argument {number}", text) for number, text in enumerate(arguments, start=1))


def read(lines: Iterable[str], name: str, format: Format, fields: Fields | None, trained: Fields) -> Iterator[Row]:
    """The rows of a file or of stdin, read one by one.

    Args:
        lines: the lines.
        name: the beginning of places.
        format: from `format_of`.
        fields: the fields of the input in this file. If None, those of the training data, or all columns if there are
            only as many.
        trained: the fields of the training data, one for each column of the model's inputs.

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
        return (Row(place, line) for place, line in _checked(numbered))
    if format == "jsonl":
        return _fields_of_json(numbered, trained if fields is None else fields)
    return _columns(numbered, fields, trained)


def is_full(chunk: Sequence[Row]) -> bool:
    """Whether a chunk has reached its limits, so that more rows may follow."""
    return len(chunk) >= CHUNK_ROWS or sum(len(row.text) for row in chunk) >= CHUNK_CHARACTERS


def chunks(rows: Iterable[Row], *, one_by_one: bool) -> Iterator[list[Row]]:
    """Rows that are decoded together, limited in number and in characters."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row.text)
        if one_by_one or len(chunk) == CHUNK_ROWS or size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _checked(numbered: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The lines, with a message if the first looks like JSON or TSV."""
    for index, (place, line) in enumerate(numbered):
        if index == 0 and line.startswith("{") and line.rstrip().endswith("}"):
            say(f"{place}: read as plain text, although it looks like JSON; use --source-field NAME to read a field.")
        elif index == 0 and TAB in line:
            say(f"{place}: read as plain text, although it has a tab; use --source-field 0 to read the first column.")
        yield place, line


def _columns(numbered: Iterable[tuple[str, str]], fields: Fields | None, trained: Fields) -> Iterator[Row]:
    chosen: list[int] | None = None
    names = trained if fields is None else fields
    for place, line in numbered:
        columns = line.split(TAB)
        if not line.strip():
            yield Row(place, "", columns)
            continue
        if chosen is None and (header := _named(columns, names)) is not None:
            chosen = header
            continue
        if chosen is None:
            chosen = _chosen(place, len(columns), fields, trained)
        needed = max(chosen) + 1
        if len(columns) < needed:
            yield Row(place, "", columns, f"expected {needed} columns or more; got {len(columns)}")
        else:
            yield Row(place, TAB.join(columns[i] for i in chosen), columns)


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


def _columns_of_csv(lines: Iterable[str], name: str, fields: Fields) -> Iterator[Row]:
    """The rows of a CSV file, whose header names the columns unless fields are numbers."""
    from regard.data.csv_fields import long_fields

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
                yield Row(place, TAB.join(row[i] for i in columns), row)
            else:
                yield Row(place, "", row, f"expected {max(columns) + 1} columns or more; got {len(row)}")


def _first(lines: Iterable[str]) -> tuple[str, Iterator[str]]:
    """The first line, and all lines."""
    every = iter(lines)
    first = next(every, "")
    return first, chain([first], every)


def _fields_of_json(numbered: Iterable[tuple[str, str]], fields: Fields) -> Iterator[Row]:
    from regard.data.jsonl import field_of, parse

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
            yield Row(place, "", value, str(error).removeprefix(f"{place}: "))
            continue
        finally:
            first = False
        yield Row(place, TAB.join(columns), value)
