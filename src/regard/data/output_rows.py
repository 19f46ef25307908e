"""Outputs of other programs for the items of an evaluation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from regard.data.csv_fields import csv_rows, is_blank, named_delimiter
from regard.data.lines import Lines
from regard.errors import DataError, counted

Items = Sequence[tuple[str, str]]
"""The place and the input of each item."""
INPUTS = ("input", "source", "text", "sentence", "start")
OUTPUTS = ("prediction", "output", "outputs", "hypothesis", "label", "labels", "target", "text")
"""The names of columns and fields, by priority."""


def read_outputs(path: Path) -> Callable[[Items], list[str]]:
    """Reads the outputs of a file, and returns the function from items to their outputs.

    The file has one output per line: for each item, or for each line of the evaluated file. Or it is a table of inputs
    and outputs, in any order: TSV, CSV with a header, or JSONL. Columns are named `input` and `prediction` (and as in
    `INPUTS` and `OUTPUTS`), else the first is the input, and the second is the output; of several others without such
    a name all belong to the output, with blanks between them.

    Raises:
        DataError: for a file that cannot be read, or without the output of an item.
    """
    lines = Lines(path)
    texts = [lines[i] for i in range(len(lines))]
    kind = path.suffix.lower()
    if kind in (".tsv", ".csv", ".jsonl"):
        pairs = _fields(texts, path) if kind == ".jsonl" else _columns(texts, path, kind)
        return lambda items: _by_input(dict(pairs), items, path)
    return lambda items: _by_line(texts, items, path)


def _by_line(texts: list[str], items: Items, path: Path) -> list[str]:
    if len(texts) == len(items):
        return texts
    numbers = [int(match[1]) if (match := re.search(r":(\d+)$", place)) else 0 for place, _ in items]
    if min(numbers) == 1 and max(numbers) <= len(texts):
        return [texts[number - 1] for number in numbers]
    raise DataError(
        f"{path}: there are {counted(len(texts), 'line|lines')} for {counted(len(items), 'item|items')}. Give one "
        "output per line, or a table of inputs and outputs (.tsv, .csv, .jsonl)."
    )


def _by_input(outputs: dict[str, str], items: Items, path: Path) -> list[str]:
    known = {" ".join(source.split()): output for source, output in outputs.items()}
    found = [known.get(" ".join((source or place).split())) for place, source in items]
    missing = [source or place for (place, source), output in zip(items, found) if output is None]
    if missing:
        raise DataError(
            f"{path}: there is no output for {len(missing):,} of {counted(len(items), 'input|inputs')}, such as "
            f"{missing[0]!r:.60}; inputs are found by their text."
        )
    return [output for output in found if output is not None]


def _columns(texts: list[str], path: Path, kind: str) -> list[tuple[str, str]]:
    if kind == ".csv":
        delimiter = named_delimiter(texts[0]) if texts else None
        skipped = 0 if delimiter is None else 1
        lines = [f"{text}\n" for text in texts[skipped:]]
        rows = [row for _, row in csv_rows(lines, delimiter or _delimiter(texts), str(path)) if not is_blank(row)]
    else:
        rows = [text.split("\t") for text in texts if text]
    if not rows or min(map(len, rows)) < 2:
        raise DataError(f"{path}: expected a column of inputs and one of outputs.")
    head = [name.strip().lower() for name in rows[0]]
    has_names = any(name in INPUTS for name in head) and any(name in OUTPUTS for name in head)
    if kind == ".csv" or has_names:
        rows = rows[1:]
    read = next((head.index(name) for name in INPUTS if name in head), 0) if has_names else 0
    said = next((head.index(name) for name in OUTPUTS if name in head and head.index(name) != read), None)
    if has_names and said is not None:
        return [(row[read], row[said]) for row in rows]
    return [(row[read], " ".join(cell for i, cell in enumerate(row) if i != read)) for row in rows]


def _delimiter(texts: list[str]) -> str:
    return max(",;\t", key=texts[0].count) if texts else ","


def _fields(texts: list[str], path: Path) -> list[tuple[str, str]]:
    pairs = []
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
            read = next(record[name] for name in INPUTS if name in record)
            said = next(record[name] for name in OUTPUTS if name in record and record[name] is not read)
        except (ValueError, TypeError, StopIteration):
            raise DataError(
                f"{path}:{number}: expected an object with an input ({', '.join(INPUTS)}) and an output "
                f"({', '.join(OUTPUTS)}); got {text!r:.60}."
            ) from None
        pairs.append((_joined(read), _joined(said)))
    return pairs


def _joined(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
