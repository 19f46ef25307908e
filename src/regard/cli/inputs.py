"""The inputs of a prediction: texts, lines, or columns and fields that are written beside the output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.cli.standard import say
from regard.errors import ConfigError, DataError

STDIN = Path("-")
CHUNK_ROWS = 2000
"""Inputs that are decoded before their outputs are written; on a terminal every line is decoded at once."""
CHUNK_CHARACTERS = 1 << 20
TAB = "\t"
Format = Literal["lines", "tsv", "jsonl"]
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


def by_suffix(path: Path) -> Literal["tsv", "jsonl"] | None:
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
    if format == "lines":
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
    for place, line in numbered:
        columns = line.split(TAB)
        if not line.strip():
            yield Row(place, "", columns)
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
