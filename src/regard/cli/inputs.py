"""The inputs of a prediction: texts, lines, or columns and fields that are kept beside the output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.cli.standard import say
from regard.errors import ConfigError, DataError

STDIN = Path("-")
CHUNK = 2000
"""Inputs decoded before their outputs are written; on a terminal every line is answered at once."""
CHUNK_CHARACTERS = 1 << 20
TAB = "\t"
Format = Literal["lines", "tsv", "jsonl"]
Fields = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """An input with what stands beside it.

    Args:
        place: for messages.
        text: the input.
        kept: the line's columns, or its JSON value; None for a text without any.
        refusal: why there is no input in the line; empty where there is.
    """

    place: str
    text: str
    kept: Any = None
    refusal: str = ""


def format_of(path: Path, fields: Fields | None, *, num_columns: int) -> Format:
    """How a file is read: by its suffix; others have columns where the model wants several or fields are counted, and
    JSON where they are named."""
    if fields is not None and any(isinstance(field, str) for field in fields):
        otherwise: Format = "jsonl"
    else:
        otherwise = "tsv" if fields is not None or num_columns > 1 else "lines"
    return by_suffix(path) or otherwise


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
        raise ConfigError(f"{option} {text!r}: give columns counted from 0, or names, as 0,2.")
    return tuple(int(name) if name.isdecimal() else name for name in names)


def texts(given: Sequence[str]) -> Iterator[Row]:
    """The arguments of the command."""
    return (Row(f"argument {number}", text) for number, text in enumerate(given, start=1))


def read(opened: Iterable[str], name: str, format: Format, fields: Fields | None, trained: Fields) -> Iterator[Row]:
    """The rows of a file or of stdin, as they come.

    Args:
        opened: its lines.
        name: what places begin with.
        format: as `format_of` has it.
        fields: the fields of the input in this file; None: as in training, or all columns where there are just those.
        trained: the fields of the training data, as many as the model's inputs have columns.

    Raises:
        DataError: for a line that is not JSON, and where the first line has not the fields.
        ConfigError: for as many fields as the model does not have.
    """
    if fields is not None and len(fields) != len(trained):
        expected = f"{len(trained)} columns" if len(trained) > 1 else "one column"
        raise ConfigError(f"--source-field names {len(fields)}, but the model's input has {expected}.")
    numbered = ((f"{name}:{number}", line) for number, line in enumerate(opened, start=1))
    if format == "lines":
        return (Row(place, line) for place, line in _looked_at(numbered))
    if format == "jsonl":
        return _fields_of_json(numbered, trained if fields is None else fields)
    return _columns(numbered, fields, trained)


def is_full(chunk: Sequence[Row]) -> bool:
    """Whether more rows may follow in another chunk."""
    return len(chunk) >= CHUNK or sum(len(row.text) for row in chunk) >= CHUNK_CHARACTERS


def chunks(rows: Iterable[Row], *, one_by_one: bool) -> Iterator[list[Row]]:
    """Rows that are decoded together: limited in number and in characters."""
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.text)
        if one_by_one or len(held) == CHUNK or size >= CHUNK_CHARACTERS:
            yield held
            held, size = [], 0
    if held:
        yield held


def _looked_at(numbered: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The lines of texts; says so where the first seems to be something else."""
    for index, (place, line) in enumerate(numbered):
        if index == 0 and line.startswith("{") and line.rstrip().endswith("}"):
            say(f"{place}: read as a text, though it looks like JSON; --source-field NAME reads a field of it.")
        elif index == 0 and TAB in line:
            say(f"{place}: read as a text, though it has a tab; --source-field 0 reads the first column.")
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
    """Which of so many columns are the input's."""
    wanted = [field for field in (trained if fields is None else fields) if isinstance(field, int)]
    if len(wanted) == len(trained) and max(wanted) < count:
        return wanted
    if fields is None and count == len(trained):
        return list(range(count))
    if len(wanted) < len(trained):
        raise ConfigError("The columns of a TSV file have numbers: say which are the input's, as --source-field 0,2.")
    shown = ", ".join(map(str, wanted))
    raise DataError(
        f"{place}: {count} tab-separated column{'s' * (count > 1)}, but the input is in {shown}, counted from 0.\n"
        "  Say which columns are the input's, as --source-field 0,1."
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
                raise DataError(f"{error}\n  Say which fields are the input's, as --source-field NAME.") from None
            yield Row(place, "", value, str(error).removeprefix(f"{place}: "))
            continue
        finally:
            first = False
        yield Row(place, TAB.join(columns), value)
