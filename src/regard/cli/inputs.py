"""The inputs of a prediction: texts, lines, or columns and fields that are written beside the output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.cli.standard import say
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.input_rows import Fields, InputFormat, InputRow
    from regard.tasks.contract import AbstractModel

STDIN = Path("-")
CHUNK_ROWS = 2000
"""Inputs that are decoded before their outputs are written; on a terminal every line is decoded at once."""
CHUNK_CHARACTERS = 1 << 20
HEAD_LINES = 100
"""Lines of a file that show whether it has the form of the training files."""
FormName = Literal["auto", "lines", "tsv", "csv", "jsonl", "training"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a file.

    Args:
        rows: read one by one.
        is_json: whether they are fields of JSON objects.
        output: the format in which outputs are printed unless another is chosen; None: the model's first.
    """

    rows: Iterator[InputRow]
    is_json: bool = False
    output: str | None = None


def opened(
    model: AbstractModel[Any], lines: Iterator[str], path: Path, *, fields: Fields | None, form: FormName, peek: bool
) -> Inputs:
    """The inputs of a file, or of stdin, as its form says; that of tables is said on stderr.

    Args:
        lines: the lines.
        path: the file; `STDIN` is stdin.
        fields: from --source-field.
        form: from --input-format.
        peek: whether the first lines may be read before the first input is predicted.
    """
    from regard.data.input_rows import read_inputs

    name = "stdin" if path == STDIN else str(path)
    if form == "training" and fields is not None:
        raise ConfigError("--source-field names columns of a table; of the form of the training files they are known.")
    if peek and fields is None and form in ("auto", "training"):
        head = list(islice(lines, HEAD_LINES))
        lines = chain(head, lines)
        table = model.input_table(name, head, is_table=form == "training")
        if table is not None:
            say(f"{name}: {table.description}" + " (--input-format lines: each line is an input)" * (form == "auto"))
            return Inputs(table.rows(lines, name), output=table.format)
    kind: InputFormat = (
        format_of(path, fields, num_columns=len(model.input_fields)) if form == "auto" or form == "training" else form
    )
    is_json = kind == "jsonl"
    return Inputs(
        read_inputs(lines, name, kind, fields, model.input_fields, say), is_json, "jsonl" if is_json else None
    )


def format_of(path: Path, fields: Fields | None, *, num_columns: int) -> InputFormat:
    """The format of a file, by its suffix. A file with another suffix is JSONL if fields have names, and TSV if fields
    have numbers or the model's inputs have several columns."""
    if fields is not None and any(isinstance(field, str) for field in fields):
        default: InputFormat = "jsonl"
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


def texts(arguments: Sequence[str]) -> Iterator[InputRow]:
    """The rows of the command's arguments."""
    from regard.data.input_rows import InputRow

    return (InputRow(f"argument {number}", text) for number, text in enumerate(arguments, start=1))


def is_full(chunk: Sequence[InputRow]) -> bool:
    """Whether a chunk has reached its limits, so that more rows may follow."""
    return len(chunk) >= CHUNK_ROWS or sum(len(row.text) for row in chunk) >= CHUNK_CHARACTERS


def chunks(rows: Iterable[InputRow], *, one_by_one: bool) -> Iterator[list[InputRow]]:
    """Rows that are decoded together, limited in number and in characters."""
    chunk: list[InputRow] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row.text)
        if one_by_one or len(chunk) == CHUNK_ROWS or size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
