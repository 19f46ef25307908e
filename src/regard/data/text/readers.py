"""Pairs from TSV, CSV, JSONL or two parallel files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from regard.data.defects import is_collecting, readable
from regard.data.lines import Lines, check_parallel
from regard.data.pairs import Pair, Pairs, readable_pairs
from regard.data.text.arrow_pairs import ArrowPairs, is_arrow
from regard.data.text.jsonl import JsonlPairs
from regard.data.text.table_pairs import open_table
from regard.data.text_file import TABLES, suffix_of
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config.texts import ParallelFiles

Format = Literal["auto", "tsv", "csv", "jsonl", "parallel"]


@dataclass(frozen=True, slots=True)
class ParallelText:
    """Two text files with corresponding lines."""

    source: Path | str
    target: Path | str


class ParallelPairs(Pairs):
    """Line n of one file with line n of another; an empty line is an empty text."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source = Lines(source)
        self.target = Lines(target)
        if is_collecting() and len(self.source) != len(self.target):
            # the files have no pairs, but their other defects are reported too
            for lines in (self.source, self.target):
                readable(len(lines), lines.__getitem__)
        check_parallel(self.source, self.target)

    def __len__(self) -> int:
        return len(self.source)

    def read(self, index: int) -> Pair:
        return Pair(self.source[index], self.target[index], self.source.path, index + 1, self.target.path)

    def part(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        return self.source.part(start, stop), self.target.part(start, stop)


def open_pairs(
    files: Path | str | ParallelText | ParallelFiles,
    *,
    format: Format = "auto",
    source_field: str | int | Sequence[str | int] = 0,
    target_field: str | int = 1,
    autoencode: bool = False,
) -> Pairs:
    """Opens pairs of texts in one pass over the file, with only the offsets of lines in memory.

    Args:
        files: a TSV, CSV, JSONL or Parquet file, a folder of Parquet files or with a data set of Hugging Face, or two
            parallel files (`ParallelText(source, target)`).
        format: `auto` chooses by the suffix: `.jsonl` and `.ndjson` are JSONL, `.csv` is CSV, `.parquet` is Parquet, a
            folder has Parquet or Arrow files, two files are parallel, others are TSV, or have ` ||| ` between the texts
            of a line.
        source_field: column of the source, counted from 0, or its name, or JSONL field (`translation.en` for a nested
            field); the texts of several are joined by tabs.
        target_field: column or JSONL field of the target; ignored with `autoencode`.
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
    if format == "auto" and is_arrow(path):
        return readable_pairs(ArrowPairs(path, source_fields=source_fields, target_field=target_field))
    if format == "auto":
        format = by_suffix(path) or "tsv"
        if suffix_of(path) == ".json":
            raise ConfigError(
                f"{path}: .json files cannot be read. Convert it to JSONL (one JSON value per line); if it is JSONL "
                "already, set data.format=jsonl.",
                ("data", "format"),
            )
    if format == "parallel":
        if not autoencode:
            raise ConfigError(f"{path}: parallel text needs two files, {{source: …, target: …}}.", ("data", "train"))
        return readable_pairs(ParallelPairs(path, path))
    for key, field in (*(("source_field", field) for field in source_fields), ("target_field", target_field)):
        if isinstance(field, int) and field < 0:
            raise ConfigError(
                f"Columns and entries of JSON lists are counted from 0, for example data.{key}=1; got {field}.",
                ("data", key),
            )
    if format == "jsonl":
        return readable_pairs(JsonlPairs(path, source_fields=source_fields, target_field=target_field))
    return readable_pairs(open_table(path, format, source_fields=source_fields, target_field=target_field))


def by_suffix(path: Path) -> Literal["tsv", "csv", "jsonl"] | None:
    """The format for a file's suffix; None for other suffixes."""
    return TABLES.get(suffix_of(path))
