"""The inputs of a prediction: texts, lines of files, or columns and fields of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

from regard.cli.standard import say
from regard.cli.unfinished import Progress
from regard.errors import ConfigError, DataError, RegardError, counted

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
NOTHING = Progress()
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


@dataclass
class ChunkSize:
    """The most rows of the next chunk.

    Chunks begin small and grow while they take less than `CHUNK_SECONDS`, so that a slow model shows its progress, too,
    and loses little if it is stopped.
    """

    rows: int = 0
    """0: of the first chunk."""

    def __post_init__(self) -> None:
        self.rows, self._begin = self.rows or min(FIRST_ROWS, CHUNK_ROWS), monotonic()

    def grow(self) -> None:
        """Called when the outputs of a chunk are written."""
        now = monotonic()
        if now - self._begin < CHUNK_SECONDS:
            self.rows = min(2 * self.rows, CHUNK_ROWS)
        self._begin = now


@dataclass(frozen=True, slots=True)
class Chunk:
    """Inputs that are decoded together.

    Args:
        before: the number of inputs before them.
        checksum: of all inputs up to the last of these.
    """

    rows: Sequence[InputRow]
    before: int
    checksum: int


def chunks(
    rows: Iterable[InputRow], size: ChunkSize, *, one_by_one: bool = False, done: Progress = NOTHING
) -> Iterator[Chunk]:
    """Inputs in chunks, limited in number and in characters, after those that are done.

    Raises:
        DataError: if those that are done had another checksum.
    """
    rows, checksum, count, place = iter(rows), 0, 0, ""
    for row in islice(rows, done.inputs):
        checksum, count, place = checked(row, checksum), count + 1, row.place
    require_same(done, count, checksum, place.rpartition(":")[0] or "the input")
    chunk: list[InputRow] = []
    num_characters, before = 0, count
    for row in rows:
        chunk.append(row)
        num_characters += len(row.text)
        checksum = checked(row, checksum)
        if one_by_one or len(chunk) >= size.rows or num_characters >= CHUNK_CHARACTERS:
            yield Chunk(chunk, before, checksum)
            before += len(chunk)
            chunk, num_characters = [], 0
    if chunk:
        yield Chunk(chunk, before, checksum)


def checked(row: InputRow, checksum: int) -> int:
    """The checksum of inputs, after a further one."""
    return crc32(f"{row.text}\n{row.kept}".encode("utf-8", "surrogatepass"), checksum)


def checksum_of(named: Iterable[tuple[str, Any]], checksum: int = 0) -> int:
    """The checksum of the names of inputs, after further ones."""
    return crc32("".join(f"{name}\n" for name, _ in named).encode("utf-8", "surrogatepass"), checksum)


def require_same(done: Progress, count: int, checksum: int, name: str) -> None:
    """Raises DataError if the first inputs are not those that are done.

    Args:
        count: how many of them there are.
    """
    if (count, checksum) != (done.inputs, done.checksum):
        found = f"has {count:,} only" if count < done.inputs else "begins with others"
        raise DataError(
            f"--resume: the stopped prediction had read {counted(done.inputs, 'input|inputs')}, but {name} {found}.\n"
            "  Give the file as it was, or leave out --resume to begin again."
        )
