"""Pairs from TSV, JSONL or two parallel files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from regard.data.columns import TAB
from regard.data.jsonl import JsonlPairs
from regard.data.lines import Lines
from regard.data.pairs import Pair, Pairs, shorten
from regard.errors import ConfigError, DataError

Format = Literal["auto", "tsv", "jsonl", "parallel"]
SUFFIXES: dict[str, Literal["tsv", "jsonl"]] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv", ".tab": "tsv"}


class ParallelFiles(Protocol):
    """Two text files whose lines belong together."""

    @property
    def source(self) -> Path | str: ...

    @property
    def target(self) -> Path | str: ...


@dataclass(frozen=True, slots=True)
class Parallel:
    """Two text files whose lines belong together."""

    source: Path | str
    target: Path | str


class TsvPairs(Pairs):
    """A pair a line, in tab-separated columns; blank lines are skipped.

    Every line needs as many columns as the first: a stray tab is an error, not a silently shortened text.
    Quotes mean themselves.

    Args:
        path: the file.
        source_fields: the columns of a source, counted from 0; they are joined by tabs.
        target_field: the column of its target.
    """

    def __init__(self, path: Path, *, source_fields: Sequence[int], target_field: int) -> None:
        self.lines = Lines(path, skip_blank=True)
        self.source_fields = source_fields
        self.target_field = target_field
        self.num_columns = self.lines[0].count("\t") + 1 if len(self.lines) else 0
        self._needed = max(*source_fields, target_field) + 1

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def num_blank(self) -> int:
        return self.lines.num_skipped

    def read(self, index: int) -> Pair:
        text = self.lines[index]
        columns = text.split(TAB)
        if len(columns) < self._needed or len(columns) != self.num_columns:
            raise DataError(self._complaint(index, text, len(columns)))
        source = TAB.join(columns[field] for field in self.source_fields)
        return Pair(source, columns[self.target_field], self.lines.path, self.lines.number(index))

    def _complaint(self, index: int, text: str, found: int) -> str:
        place = f"{self.lines.path}:{self.lines.number(index)}"
        message = f"{place}: {found} tab-separated column{'s' * (found != 1)} in {shorten(text)}"
        if found >= self._needed:
            return f"{message}; the first line has {self.num_columns}, and every line needs as many."
        sources = ", ".join(map(str, self.source_fields))
        message += f"; fields {sources} and {self.target_field}, counted from 0, need at least {self._needed}."
        if found == 1:
            message += (
                "\n  Is the separator no tab? For texts without an output set data.autoencode=true. Two parallel files"
                "\n  are data.train={source: …, target: …} in training, and --source … --target … to regard evaluate."
            )
        return message


class ParallelPairs(Pairs):
    """Line n of one file and line n of another; an empty line is an empty text."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source = Lines(source)
        self.target = Lines(target)
        if len(self.source) != len(self.target):
            raise DataError(
                "Parallel files need the same number of lines.\n"
                f"  {source}: {len(self.source):,} lines\n  {target}: {len(self.target):,} lines"
            )

    def __len__(self) -> int:
        return len(self.source)

    def read(self, index: int) -> Pair:
        return Pair(self.source[index], self.target[index], self.source.path, index + 1)


def open_pairs(
    files: Path | str | ParallelFiles,
    *,
    format: Format = "auto",
    source_field: str | int | Sequence[str | int] = 0,
    target_field: str | int = 1,
    autoencode: bool = False,
) -> Pairs:
    """Opens pairs of texts; one pass finds the lines, and only their offsets stay in memory.

    Args:
        files: a TSV or JSONL file, or two parallel files (`Parallel(source, target)`).
        format: `auto` goes by the suffix: `.jsonl` and `.ndjson` are JSONL, two files are parallel, all else is TSV.
        source_field: TSV column, counted from 0, or JSONL field of the source; of a list of them the texts are joined
            by tabs.
        target_field: the same of the target; ignored where the target is the source.
        autoencode: the target is the source itself.

    Raises:
        ConfigError: for options that contradict the file.
        DataError: for a file that cannot be read; a bad line is named when it is read.
    """
    source_fields = (source_field,) if isinstance(source_field, (str, int)) else tuple(source_field)
    if not source_fields:
        raise ConfigError("data.source_field lists no column.", ("data", "source_field"))
    if autoencode and len(source_fields) > 1:
        raise ConfigError(
            f"An autoencoder's output is its input, of one column; data.source_field lists {len(source_fields)}.",
            ("data", "source_field"),
        )
    target_field = source_fields[0] if autoencode else target_field
    if not isinstance(files, (str, Path)):
        if format not in ("auto", "parallel"):
            raise ConfigError(f"Two parallel files are not read as {format}.", ("data", "format"))
        if len(source_fields) > 1:
            raise ConfigError(
                "The lines of parallel files have one column; a source of several comes from a TSV or JSONL file.",
                ("data", "source_field"),
            )
        source = Path(files.source)
        return ParallelPairs(source, source if autoencode else Path(files.target))
    path = Path(files)
    if format == "auto":
        format = by_suffix(path) or "tsv"
        if path.suffix.lower() in (".csv", ".json"):
            raise ConfigError(
                f"{path}: a {path.suffix} file is not read by itself; make it TSV or JSONL (a JSON value a line), "
                "or say data.format=tsv or data.format=jsonl if it is one.",
                ("data", "format"),
            )
    if format == "parallel":
        if not autoencode:
            raise ConfigError(f"{path}: parallel text needs two files, source: and target:.", ("data", "train"))
        return ParallelPairs(path, path)
    for field in source_fields:
        _check_field(field, "source_field", format)
    _check_field(target_field, "target_field", format)
    if format == "jsonl":
        return JsonlPairs(path, source_fields=source_fields, target_field=target_field)
    columns = [field for field in source_fields if isinstance(field, int)]
    assert isinstance(target_field, int)
    return TsvPairs(path, source_fields=columns, target_field=target_field)


def by_suffix(path: Path) -> Literal["tsv", "jsonl"] | None:
    """The format that a file's suffix names; None where it names neither."""
    return SUFFIXES.get(path.suffix.lower())


def _check_field(field: str | int, key: str, format: Format) -> None:
    if (isinstance(field, str) and format == "tsv") or (isinstance(field, int) and field < 0):
        raise ConfigError(
            f"TSV columns and JSON lists are counted from 0, as in data.{key}=1; got {field!r}. Only JSON objects have "
            "named fields.",
            ("data", key),
        )
