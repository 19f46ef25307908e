"""Inputs of a prediction with their places in a file: lines, or columns and fields of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from regard.data.csv_fields import DELIMITERS, csv_rows, named_delimiter
from regard.data.table_rows import TAB, kind_of, split_row
from regard.data.text.jsonl import field_of, parse
from regard.data.text.table_pairs import are_headings
from regard.errors import ConfigError, DataError, Option, counted

InputFormat = Literal["lines", "csv", "tsv", "jsonl"]
Fields = tuple[str | int, ...]
NAMED_FIELD = Option("--source-field NAME", "source_field=name")


@dataclass(frozen=True, slots=True)
class InputRow:
    """An input with the other columns of its line.

    Args:
        place: file and line, for messages.
        text: the input: a text, or another input of the model's `predict`.
        kept: the columns of the line, or its JSON value, which are written beside the output; None for a plain text.
        refusal: the reason why the line has no input; empty if it has one.
    """

    place: str
    text: Any
    kept: Any = None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class InputTable:
    """A reader for the inputs of a file.

    Args:
        description: for the user, such as `tab-separated columns; the input is column 0 of 2`.
        rows: a function that reads lines lazily as rows; its second argument is the file's name, for places.
        format: the default format of outputs; None: as for other files.
        header: the names of the columns, if the file has them.
        fields: the fields of the first object of a JSONL file.
        delimiter: the delimiter of a CSV file.
    """

    description: str
    rows: Callable[[Iterable[str], str], Iterator[InputRow]]
    format: str | None = None
    header: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    delimiter: str = ","


def input_table(
    head: Sequence[str],
    name: str,
    format: InputFormat,
    fields: Fields | None,
    trained: Fields,
    note: Callable[[str], object] = lambda text: None,
) -> InputTable:
    """The reader for a file with one input per line, or with columns or fields.

    Args:
        head: its first lines; empty if they may not be read yet.
        name: the file's name, for messages.
        fields: the fields of the input in this file. If None, those of the training data, or all columns if the file
            has no others.
        trained: the fields of the training data, one for each column of the model's inputs.
        note: called with messages for the user.

    Raises:
        DataError: for a header without these fields.
        ConfigError: if the number of fields is not that of the model's columns.
    """
    if fields is not None and len(fields) != len(trained):
        expected = f"{len(trained)} columns" if len(trained) > 1 else "one column"
        option = Option("--source-field", "source_field")
        raise ConfigError(f"{option} lists {len(fields)}, but the model's input has {expected}.")
    chosen = trained if fields is None else fields
    if format == "csv":
        return _csv_table(head, name, fields, trained)
    if format == "tsv":
        return separated_table(head, TAB, fields, trained)
    if format == "jsonl":
        shown = f"JSON; the input is the field {', '.join(map(str, chosen))}"
        first = next((parse(line, place) for place, line in _numbered(head, name) if line.strip()), None)
        return InputTable(
            shown,
            lambda lines, name: _fields_of_json(_numbered(lines, name), chosen),
            "jsonl",
            fields=tuple(first) if isinstance(first, dict) else (),
        )

    def rows(lines: Iterable[str], name: str) -> Iterator[InputRow]:
        return (InputRow(place, line) for place, line in _checked(_numbered(lines, name), note))

    return InputTable("one input per line", rows)


def separated_table(head: Sequence[str], separator: str, fields: Fields | None, trained: Fields) -> InputTable:
    """The reader for a file with one row per line, without quoting; the separator is that of `split_row`."""
    first = split_row(head[0], separator) if head else []
    use = trained if fields is None else fields
    chosen = _named(first, use) if first else None
    by_number = all(isinstance(field, int) for field in use)
    has_header = chosen is not None or (
        by_number and len(first) > 1 and len(head) > 1 and are_headings([each.strip() for each in first])
    )
    kind = kind_of(separator)

    def rows(lines: Iterable[str], name: str) -> Iterator[InputRow]:
        columns = chosen
        for number, line in enumerate(lines, start=1):
            place, values = f"{name}:{number}", split_row(line, separator)
            if has_header and number == 1:
                continue
            if not line.strip():
                yield InputRow(place, "", values)
                continue
            if columns is None:
                columns = _chosen(place, len(values), fields, trained, f"{kind} ")
            yield _row(place, values, columns)

    return InputTable(
        _description(f"{kind} columns", chosen or use, first) + "; the first line names them" * has_header,
        rows,
        header=tuple(first) if has_header else (),
    )


def _row(place: str, values: list[str], columns: Sequence[int]) -> InputRow:
    needed = max(columns) + 1
    if len(values) < needed:
        return InputRow(place, "", values, f"expected {needed} columns or more; got {len(values)}")
    return InputRow(place, TAB.join(values[i] for i in columns), values)


def _description(kind: str, fields: Sequence[str | int], first: Sequence[str]) -> str:
    total = f" of {len(first)}" if first else ""
    noun = "column" if len(fields) == 1 else "columns"
    return f"{kind}; the input is {noun} {', '.join(map(str, fields))}{total}"


def _numbered(lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    return ((f"{name}:{number}", line) for number, line in enumerate(lines, start=1))


def _checked(numbered: Iterable[tuple[str, str]], note: Callable[[str], object]) -> Iterator[tuple[str, str]]:
    """The lines, after a note if the first looks like JSON or TSV."""
    for index, (place, line) in enumerate(numbered):
        if index == 0 and line.startswith("{") and line.rstrip().endswith("}"):
            note(f"{place}: read as plain text, although it looks like JSON; use {NAMED_FIELD} to read a field.")
        elif index == 0 and TAB in line:
            column = Option("--source-field 0", "source_field=0")
            note(f"{place}: read as plain text, although it has a tab; use {column} to read the first column.")
        yield place, line


def _chosen(place: str, count: int, fields: Fields | None, trained: Fields, kind: str = "") -> list[int]:
    """The columns of the input in a line with `count` columns."""
    numbers = [field for field in (trained if fields is None else fields) if isinstance(field, int)]
    if len(numbers) == len(trained) and max(numbers) < count:
        return numbers
    if fields is None and count == len(trained):
        return list(range(count))
    if len(numbers) < len(trained):
        example = Option("--source-field 0,2", "source_field=(0, 2)")
        raise ConfigError(f"The columns of the file have no names; give their numbers, for example {example}.")
    shown = ", ".join(map(str, numbers))
    raise DataError(
        f"{place}: {counted(count, f'{kind}column|columns')}, but the input is in {shown}, counted from 0.\n"
        f"  Give the columns of the input, for example {Option('--source-field 0,1', 'source_field=(0, 1)')}."
    )


def _named(header: Sequence[str], fields: Fields) -> list[int] | None:
    """The numbers of named columns; None if the line is not a header with all of them."""
    names = [name.strip() for name in header]
    if any(field not in names for field in fields):
        return None
    return [names.index(str(field)) for field in fields]


def _csv_table(head: Sequence[str], name: str, fields: Fields | None, trained: Fields) -> InputTable:
    """The reader for a CSV file; the first row is a header if fields have names or it looks like one."""
    use = trained if fields is None else fields
    named = any(isinstance(field, str) for field in use)
    separator, chosen = named_delimiter(head[0]) if head else None, None
    begin = int(separator is not None)

    def numbered(lines: Iterable[str], name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
        texts = (f"{line}\n" for line in islice(lines, begin, None))
        return ((n, row) for n, row in csv_rows(texts, delimiter, name, first=begin + 1, strict=False) if row)

    delimiters = DELIMITERS if separator is None else (separator,)
    firsts = {each: next((row for _, row in numbered(head, name, each)), []) for each in delimiters}
    delimiter = max(delimiters, key=lambda each: len(firsts[each]))
    if named:
        by_delimiter = ((each, _named(row, use)) for each, row in firsts.items())
        delimiter, chosen = next(((each, columns) for each, columns in by_delimiter if columns), (delimiter, None))
        if chosen is None:
            names = ", ".join(map(repr, firsts[delimiter])) or "none"
            missing = ", ".join(repr(field) for field in use if field not in firsts[delimiter])
            raise DataError(
                f"{name}:1: no column {missing}; the columns are {names}.\n"
                f"  Give the column of the input: {NAMED_FIELD}."
            )
    first = firsts[delimiter]
    # one known column name suffices, as most CSV files have a header
    has_header = named or (
        len(first) > 1 and all(first) and any(len(each) > 1 and are_headings([each.strip()]) for each in first)
    )
    columns = chosen or _chosen(f"{name}:{begin + 1}", len(first), fields, trained)

    def rows(lines: Iterable[str], name: str) -> Iterator[InputRow]:
        width = len(first)
        for number, row in islice(numbered(lines, name, delimiter), int(has_header), None):
            place, surplus = f"{name}:{number}", any(value.strip() for value in row[width:])
            if surplus:  # usually an unquoted text with a delimiter
                yield InputRow(place, "", row, f"expected {width} columns, as in the first row; got {len(row)}")
                continue
            # padded to the width of the header, so that the output is in its own column
            filled = [*row, *[""] * (width - len(row))][:width]
            is_short = len(row) <= max(columns)
            yield replace(_row(place, row, columns), kept=filled) if is_short else _row(place, filled, columns)

    return InputTable(
        _description("CSV", use if chosen else columns, first) + "; the first line names the columns" * has_header,
        rows,
        "csv",
        header=tuple(first) if has_header else (),
        delimiter=delimiter,
    )


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
                raise DataError(f"{error}\n  Give the fields of the input: {NAMED_FIELD}.") from None
            yield InputRow(place, "", value, str(error).removeprefix(f"{place}: "))
            continue
        finally:
            first = False
        yield InputRow(place, TAB.join(columns), value)
