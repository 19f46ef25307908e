"""The inputs of a prediction: texts, lines, or columns and fields that are written beside the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from regard.cli.standard import say
from regard.errors import ConfigError, DataError, RegardError

if TYPE_CHECKING:
    from regard.data.input_rows import Fields, InputFormat, InputRow, InputTable
    from regard.runs.contract import AbstractModel

STDIN = Path("-")
CHUNK_ROWS = 2000
"""The most inputs that are decoded before their outputs are written; on a terminal every line is decoded at once."""
FIRST_ROWS = 250
CHUNK_SECONDS = 5.0
CHUNK_CHARACTERS = 1 << 20
LONGEST_NAME = 200
HEAD_LINES = 100
"""Lines of a file that show whether it has the form of the training files."""
FormName = Literal["auto", "lines", "tsv", "csv", "jsonl", "training"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a file.

    Args:
        table: how they are read; None: they are arguments of the command.
        is_json: whether they are fields of JSON objects.
    """

    rows: Iterator[InputRow]
    table: InputTable | None = None
    is_json: bool = False


def opened(
    model: AbstractModel[Any], lines: Iterator[str], path: Path, *, fields: Fields | None, form: FormName, peek: bool
) -> Inputs:
    """The inputs of a file, or of stdin, as its form says; that of tables is said on stderr.

    Args:
        path: the file; `STDIN` is stdin.
        peek: whether the first lines may be read before the first input is predicted.
    """
    from regard.data.input_rows import input_table

    name = "stdin" if path == STDIN else str(path)
    if form == "training" and fields is not None:
        raise ConfigError("--source-field names columns of a table; of the form of the training files they are known.")
    head = list(islice(lines, HEAD_LINES)) if peek else []
    table, kind = None, None
    if peek and fields is None and form in ("auto", "training"):
        table = model.input_table(name, head, is_table=form == "training")
    if table is None:
        if form == "auto" or form == "training":
            kind = format_of(path, fields, num_columns=len(model.input_fields))
        else:
            kind = form
        table = input_table(head, name, kind, fields, model.input_fields, say)
    if kind not in ("lines", "jsonl") and fields is None and head:
        say(f"{name}: {table.description}" + " (--input-format lines: each line is an input)" * (form == "auto"))
    return Inputs(table.rows(chain(head, lines), name), table, kind == "jsonl")


def file_of(arguments: Sequence[str]) -> Path | None:
    """The file, if the only argument is the name of one, such as test.tsv, and not a word that happens to name one.

    It is said on stderr that it is read.
    """
    if len(arguments) != 1 or len(arguments[0]) >= LONGEST_NAME:
        return None
    path = Path(arguments[0])
    if not (path.suffix and path.is_file()):
        return None
    say(f"{path} is read as a file of inputs, as with --input.")
    return path


def named_inputs(
    model: AbstractModel[Any], arguments: Sequence[str], unsupported_reason: Callable[[DataError], object] | None
) -> list[tuple[str, Any]]:
    """The inputs of arguments that are files or folders, with their names.

    Args:
        refuse: is told of a file that cannot be read, which does not stop the others.
    """
    from regard.data.pictures.tables import natural

    names: list[str] = []
    for argument in arguments:
        folder = Path(argument)
        if not (model.folder_suffixes and folder.is_dir()):
            names.append(argument)
            continue
        files = [file for file in folder.iterdir() if file.name.lower().endswith(model.folder_suffixes)]
        if not files:
            raise DataError(f"{folder}: the folder has no files {' or '.join(model.folder_suffixes)}.")
        names += map(str, sorted(files, key=natural))
    given: list[tuple[str, Any]] = []
    for name in names:
        try:
            given += model.inputs(name)
        except DataError as error:
            if unsupported_reason is None or len(names) == 1:
                raise
            unsupported_reason(error)
    if not given:
        raise DataError("None of the files can be read.")
    return given


def format_of(path: Path, fields: Fields | None, *, num_columns: int) -> InputFormat:
    """The format of a file, by its suffix. A file with another suffix is JSONL if fields have names, and TSV if fields
    have numbers or the model's inputs have several columns."""
    from regard.data.text.readers import by_suffix

    if fields is not None and any(isinstance(field, str) for field in fields):
        default: InputFormat = "jsonl"
    else:
        default = "tsv" if fields is not None or num_columns > 1 else "lines"
    return by_suffix(path) or default


def parse_fields(text: str | None, option: str = "--source-field") -> Fields | None:
    """The fields of `--source-field 0,2`; numbers count columns from 0."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ConfigError(f"{option} {text!r}: give columns counted from 0, for example 0,2, or names of fields.")
    return tuple(int(name) if name.isdecimal() else name for name in names)


def of_pairs(
    file: Path | None, source: Path | None, target: object, source_field: str | None, target_field: str | None
) -> tuple[Path, Fields | None, str | int | None]:
    """The file of pairs, or that of the sources, and the columns of both sides, of the options that name them."""
    path = file or source
    if path is None or (file is None) != bool(source and target) or (file and (source or target)):
        raise RegardError("Give a file of pairs, or --source FILE --target FILE.")
    fields, output_fields = parse_fields(source_field), parse_fields(target_field, "--target-field")
    if file is None and (fields or output_fields):
        raise RegardError("--source-field and --target-field are for files of pairs; parallel files have no columns.")
    if output_fields is not None and len(output_fields) > 1:
        raise RegardError(f"--target-field {target_field}: give one column; an output cannot have several.")
    return path, fields, output_fields[0] if output_fields else None


def texts(arguments: Sequence[str]) -> Iterator[InputRow]:
    """The rows of the command's arguments."""
    from regard.data.input_rows import InputRow

    return (InputRow(f"argument {number}", text) for number, text in enumerate(arguments, start=1))


def is_full(chunk: Sequence[InputRow]) -> bool:
    """Whether a chunk has reached the limits of the first one, so that more rows may follow."""
    return len(chunk) >= min(FIRST_ROWS, CHUNK_ROWS) or sum(len(row.text) for row in chunk) >= CHUNK_CHARACTERS


def chunks(rows: Iterable[InputRow], *, one_by_one: bool) -> Iterator[list[InputRow]]:
    """Rows that are decoded together, limited in number and in characters.

    There are few in the first chunk, and more in the next ones as long as these are done in `CHUNK_SECONDS`, so that a
    slow model too shows how far it is, and can be stopped without losing much.
    """
    limit = min(FIRST_ROWS, CHUNK_ROWS)
    chunk: list[InputRow] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row.text)
        if one_by_one or len(chunk) >= limit or size >= CHUNK_CHARACTERS:
            begin = monotonic()
            yield chunk
            if monotonic() - begin < CHUNK_SECONDS:
                limit = min(2 * limit, CHUNK_ROWS)
            chunk, size = [], 0
    if chunk:
        yield chunk
