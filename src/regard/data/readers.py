"""Pairs from TSV, JSONL or two parallel files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from regard.data.columns import TAB
from regard.data.defects import is_collecting, readable
from regard.data.jsonl import JsonlPairs
from regard.data.lines import Lines, check_parallel
from regard.data.pairs import LinePairs, Pair, Pairs, readable_pairs, shorten
from regard.data.text_file import suffix_of
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.config.tasks.text_to_text import ParallelFiles

Format = Literal["auto", "tsv", "jsonl", "parallel"]
SUFFIXES: dict[str, Literal["tsv", "jsonl"]] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv", ".tab": "tsv"}


@dataclass(frozen=True, slots=True)
class ParallelText:
    """Two text files whose lines belong together."""

    source: Path | str
    target: Path | str


class TsvPairs(LinePairs):
    """One pair per line, in tab-separated columns; blank lines are skipped.

    Every line needs as many columns as the first, so that a stray tab is an error and never shortens a text.
    Quotation marks have no special meaning.

    Args:
        path: the file.
        source_fields: the columns of the source, counted from 0; several are joined by tabs.
        target_field: the column of the target.
    """

    def __init__(self, path: Path, *, source_fields: Sequence[int], target_field: int) -> None:
        super().__init__(path)
        self.source_fields = source_fields
        self.target_field = target_field
        self.num_columns = self.lines[0].count("\t") + 1 if len(self.lines) else 0
        self._needed = max(*source_fields, target_field) + 1

    def read(self, index: int) -> Pair:
        text = self.lines[index]
        columns = text.split(TAB)
        if len(columns) < self._needed:
            raise DataError(self._too_few(index, text, len(columns)))
        if len(columns) != self.num_columns:
            raise DataError(
                f"{self._counted(index, text, len(columns))}; the first line has {self.num_columns}, and every line "
                "needs the same number."
            )
        source = TAB.join(columns[field] for field in self.source_fields)
        return Pair(source, columns[self.target_field], self.lines.path, self.lines.number(index))

    def _counted(self, index: int, text: str, count: int) -> str:
        place = f"{self.lines.path}:{self.lines.number(index)}"
        return f"{place}: {count} tab-separated column{'s' * (count != 1)} in {shorten(text)}"

    def _too_few(self, index: int, text: str, count: int) -> str:
        sources = ", ".join(map(str, self.source_fields))
        message = (
            f"{self._counted(index, text, count)}; fields {sources} and {self.target_field}, counted from 0, need at "
            f"least {self._needed}."
        )
        if count == 1:
            message += (
                "\n  Are the columns separated by tabs? For texts without an output, set data.autoencode=true."
                "\n  For two parallel files, set data.train={source: …, target: …} in training, or use --source and"
                "\n  --target of regard evaluate and regard align."
            )
        return message


class ParallelPairs(Pairs):
    """Line n of one file and line n of another; an empty line is an empty text."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source = Lines(source)
        self.target = Lines(target)
        if is_collecting() and len(self.source) != len(self.target):
            for lines in (
                self.source,
                self.target,
            ):  # the files have no pairs, but what else is wrong with them is said
                readable(len(lines), lines.__getitem__)
        check_parallel(self.source, self.target)

    def __len__(self) -> int:
        return len(self.source)

    def read(self, index: int) -> Pair:
        return Pair(self.source[index], self.target[index], self.source.path, index + 1, self.target.path)


def open_pairs(
    files: Path | str | ParallelText | ParallelFiles,
    *,
    format: Format = "auto",
    source_field: str | int | Sequence[str | int] = 0,
    target_field: str | int = 1,
    autoencode: bool = False,
) -> Pairs:
    """Opens pairs of texts; one pass finds the lines, and only their offsets are kept in memory.

    Args:
        files: a TSV or JSONL file, or two parallel files (`ParallelText(source, target)`).
        format: `auto` goes by the suffix: `.jsonl` and `.ndjson` are JSONL, two files are parallel, all else is TSV.
        source_field: TSV column, counted from 0, or JSONL field of the source; the texts of several are joined by tabs.
        target_field: TSV column or JSONL field of the target; ignored with `autoencode`.
        autoencode: whether the target is the source itself.

    Raises:
        ConfigError: for options that contradict the file.
        DataError: for a file that cannot be read; for a malformed line, when it is read.
    """
    source_fields = (source_field,) if isinstance(source_field, (str, int)) else tuple(source_field)
    if not source_fields:
        raise ConfigError("data.source_field lists no column; give one or more.", ("data", "source_field"))
    if autoencode and len(source_fields) > 1:
        raise ConfigError(
            f"data.autoencode needs an input of one column; data.source_field lists {len(source_fields)}.",
            ("data", "source_field"),
        )
    target_field = source_fields[0] if autoencode else target_field
    if not isinstance(files, (str, Path)):
        if format not in ("auto", "parallel"):
            raise ConfigError(
                f"Two parallel files cannot be read as {format}; leave data.format out.", ("data", "format")
            )
        if len(source_fields) > 1:
            raise ConfigError(
                "The lines of parallel files have one column; a source of several columns needs a TSV or JSONL file.",
                ("data", "source_field"),
            )
        source = Path(files.source)
        return readable_pairs(ParallelPairs(source, source if autoencode else Path(files.target)))
    path = Path(files)
    if format == "auto":
        format = by_suffix(path) or "tsv"
        if suffix_of(path) in (".csv", ".json"):
            raise ConfigError(
                f"{path}: {path.suffix} files cannot be read. Convert it to TSV or JSONL (one JSON value per line); "
                "if it is one of these already, set data.format=tsv or data.format=jsonl.",
                ("data", "format"),
            )
    if format == "parallel":
        if not autoencode:
            raise ConfigError(f"{path}: parallel text needs two files, {{source: …, target: …}}.", ("data", "train"))
        return readable_pairs(ParallelPairs(path, path))
    for field in source_fields:
        _check_field(field, "source_field", format)
    _check_field(target_field, "target_field", format)
    if format == "jsonl":
        return readable_pairs(JsonlPairs(path, source_fields=source_fields, target_field=target_field))
    columns = [field for field in source_fields if isinstance(field, int)]
    assert isinstance(target_field, int)
    return readable_pairs(TsvPairs(path, source_fields=columns, target_field=target_field))


def by_suffix(path: Path) -> Literal["tsv", "jsonl"] | None:
    """The format that a file's suffix names; None if it names neither."""
    return SUFFIXES.get(suffix_of(path))


def _check_field(field: str | int, key: str, format: Format) -> None:
    if (isinstance(field, str) and format == "tsv") or (isinstance(field, int) and field < 0):
        raise ConfigError(
            f"TSV columns and entries of JSON lists are counted from 0, for example data.{key}=1; got {field!r}. Only "
            "JSON objects have named fields.",
            ("data", key),
        )
