"""The inputs of a prediction: texts, lines of files, or columns and fields of tables."""

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
"""The most inputs that are decoded before their outputs are written; on a terminal it is one line."""
FIRST_ROWS = 250
CHUNK_SECONDS = 5.0
CHUNK_CHARACTERS = 1 << 20
LONGEST_NAME = 200
HEAD_LINES = 100
"""The number of lines from which the form of a file is recognised."""
FormName = Literal["auto", "lines", "tsv", "csv", "jsonl", "training"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a file.

    Args:
        table: the form of the file; None for arguments of the command.
        is_json: whether the inputs are fields of JSON objects.
    """

    rows: Iterator[InputRow]
    table: InputTable | None = None
    is_json: bool = False


def opened(
    model: AbstractModel[Any], lines: Iterator[str], path: Path, *, fields: Fields | None, form: FormName, peek: bool
) -> Inputs:
    """The inputs of a file or of stdin. A message on stderr names the form of a table.

    Args:
        path: the file; `STDIN` is stdin.
        peek: whether the first lines may be read before the first input is predicted.
    """
    from regard.data.input_rows import input_table

    name = "stdin" if path == STDIN else str(path)
    if form == "training" and fields is not None:
        raise ConfigError("--source-field is for tables of other forms than that of the training files.")
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
    """The file whose name, with a suffix, is the only argument; a message on stderr says that it is read."""
    if len(arguments) != 1 or len(arguments[0]) >= LONGEST_NAME:
        return None
    path = Path(arguments[0])
    if not (path.suffix and path.is_file()):
        return None
    say(f"{path} is read as a file of inputs, as with --input.")
    return path


def named_inputs(
    model: AbstractModel[Any], arguments: Sequence[str], refuse: Callable[[DataError], object] | None
) -> list[tuple[str, Any]]:
    """The inputs of arguments that are files or folders, with their names.

    Args:
        refuse: called for a file that cannot be read, if there are several; the error is raised if it is None.
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
    named: list[tuple[str, Any]] = []
    for name in names:
        try:
            named += model.inputs(name)
        except DataError as error:
            if refuse is None or len(names) == 1:
                raise
            refuse(error)
    if not named:
        raise DataError("None of the files can be read.")
    return named


def format_of(path: Path, fields: Fields | None, *, num_columns: int) -> InputFormat:
    """The format of a file by its suffix; for other suffixes JSONL if fields have names, TSV if they have numbers or
    the model's inputs have several columns, and otherwise lines."""
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


def file_or_parallel(file: Path | None, source: Path | None, target: object) -> Path:
    """The file of a command, or that of the inputs of parallel files."""
    path = file or source
    if path is None or (file is None) != bool(source and target) or (file and (source or target)):
        raise RegardError("Give FILE, or of parallel texts --source FILE --target FILE.")
    return path


def of_pairs(
    file: Path | None, source: Path | None, target: object, source_field: str | None, target_field: str | None
) -> tuple[Path, Fields | None, str | int | None]:
    """The file of pairs or of sources, and the columns of both sides, from the options of a command."""
    path = file_or_parallel(file, source, target)
    fields, output_fields = parse_fields(source_field), parse_fields(target_field, "--target-field")
    if file is None and (fields or output_fields):
        raise RegardError("--source-field and --target-field are for files of pairs; parallel files have no columns.")
    if output_fields is not None and len(output_fields) > 1:
        raise RegardError(f"--target-field {target_field}: an output has one column only.")
    return path, fields, output_fields[0] if output_fields else None


def texts(arguments: Sequence[str]) -> Iterator[InputRow]:
    """The rows of the command's arguments."""
    from regard.data.input_rows import InputRow

    return (InputRow(f"argument {number}", text) for number, text in enumerate(arguments, start=1))


def is_full(chunk: Sequence[InputRow]) -> bool:
    """Whether a first chunk has reached its limits, so that more rows may follow."""
    return len(chunk) >= min(FIRST_ROWS, CHUNK_ROWS) or sum(len(row.text) for row in chunk) >= CHUNK_CHARACTERS


def chunks(rows: Iterable[InputRow], *, one_by_one: bool) -> Iterator[list[InputRow]]:
    """Rows that are decoded together, limited in number and in characters.

    Chunks begin small and grow while they take less than `CHUNK_SECONDS`, so that a slow model shows its progress, too,
    and loses little if it is stopped.
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
