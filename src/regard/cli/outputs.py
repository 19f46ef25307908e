"""The outputs of predictions: lines in a stream or a file, and further files for each input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer

from regard.cli.progress import ProgressLine, terminable
from regard.cli.standard import BLANKS, FAILED, check_output, say
from regard.cli.unfinished import Progress, Unfinished
from regard.errors import RegardError, counted
from regard.files import plain

if TYPE_CHECKING:
    from regard.data.input_rows import InputRow, InputTable
    from regard.runs.calibration import Stated
    from regard.runs.contract import AbstractModel

LONGEST_NAME = 40
"""The most letters of the text in the name of a file."""


class Writer:
    """Writes outputs and shows the progress; a context manager.

    Args:
        unfinished: the files of the output, from whose progress this goes on.
        share: the share of completed inputs, from 0 to 1, or None.
        visible: whether a bar may be shown.
        convert: writes the output from a file with the lines.
    """

    def __init__(
        self,
        unfinished: Unfinished,
        share: Callable[[], float | None],
        *,
        visible: bool,
        convert: Callable[[Path, Path], object] | None = None,
    ) -> None:
        done = unfinished.progress
        self._unfinished, self._convert = unfinished, convert
        self.progress, self.failed, self.withheld = (
            ProgressLine(share, visible, done.inputs),
            done.failed,
            done.withheld,
        )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(terminable())
            self._stream = stack.enter_context(self._unfinished.opened(self._convert))
            stack.enter_context(self.progress)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def print(self, lines: Iterable[str]) -> None:
        """Writes lines."""
        for line in lines:
            print(line, file=self._stream)

    def advance(self, count: int, checksum: int, chunk_rows: int = 0) -> None:
        """Records that the outputs of `count` further inputs are complete, with all others that are counted.

        Args:
            checksum: of all inputs whose outputs are complete.
            chunk_rows: the most inputs of the next chunk.
        """
        done = Progress(self.progress.done + count, checksum, 0, self.failed, self.withheld, chunk_rows)
        self._unfinished.advance(done)
        self.progress.advance(count)


def finish(unfinished: Unfinished) -> None:
    """Ends a complete prediction; raises `typer.Exit` with status 1 if inputs have no output."""
    done = unfinished.progress
    try:
        if done.withheld:
            total = f"of {done.inputs:,} left empty"
            say(f"{counted(done.withheld, f'output|outputs {total}')}, with less confidence than --at-least.")
        check_failed(done.failed)
    finally:
        unfinished.forget()


def check_failed(count: int) -> None:
    """Ends the command with status 1 if inputs have no output."""
    if count:
        say(f"{counted(count, 'input|inputs has|have')} no output; see above.")
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class Output:
    """The lines for an input, their numbers of columns of input and of output, and its warning.

    Args:
        failed: whether there is no output.
        withheld: whether it is left empty for its confidence.
    """

    text: str
    num_kept: int = 0
    num_outputs: int = 0
    warning: str = ""
    failed: bool = False
    withheld: bool = False


@dataclass(frozen=True)
class LineFormat:
    """Formats predictions as lines.

    Args:
        table: the form of the inputs; None for arguments.
        num_columns: the columns of an input.
        has_files: whether there are files for each input.
        stated: what outputs state about their confidence.
    """

    model: AbstractModel[Any]
    name: str
    table: InputTable | None
    num_columns: int
    scores: bool
    has_files: bool
    stated: Stated

    def output(self, row: InputRow, prediction: Any, files: Sequence[Path]) -> Output:
        """The lines of a prediction."""
        if self.name == "jsonl":
            record = self.model.stated_record(prediction, self.stated)
            if self.has_files:
                record["files"] = [str(path) for path in files]
            return Output(json.dumps(plain(_record(row, record)), ensure_ascii=False, allow_nan=False))
        if self.name not in ("tsv", "text", "csv"):
            return Output(self.model.formatted(prediction, row.kept, self.name, scores=self.scores, stated=self.stated))
        kept = [] if self.name == "text" else self._kept(row)
        rows = self.model.stated_rows(prediction, self.stated, scores=self.scores)
        lines = [self._line([*kept, *columns, *map(str, files[:1])]) for columns in rows]
        num_outputs = max(map(len, rows), default=0) - self.stated.shown
        return Output("\n".join(lines), num_kept=len(kept), num_outputs=num_outputs)

    def heading(self, outputs: Sequence[Output]) -> Sequence[str]:
        """The line with the names of columns, before the first outputs: of CSV, and of TSV if the input has one."""
        header = () if self.table is None else self.table.header or self._fields
        if not outputs or not (self.name == "csv" or (self.name == "tsv" and header)):
            return []
        kept = outputs[0].num_kept
        names = list(header or (["input"] if kept == 1 else [f"input_{i}" for i in range(kept)]))
        further = [*["confidence"] * self.stated.shown, *["file"] * self.has_files]
        for name in [*self.model.column_names[: outputs[0].num_outputs], *further]:
            names.append(name if name not in names else f"{name}_2")
        return [self._line(names)]

    @property
    def _fields(self) -> tuple[str, ...]:
        """The fields of JSON inputs that are columns of a CSV file."""
        return self.table.fields if self.table is not None and self.name == "csv" else ()

    def _kept(self, row: InputRow) -> list[str]:
        """The columns of the input that are written before those of the output."""
        if isinstance(row.kept, dict) and self._fields:
            values = ("" if (value := row.kept.get(name)) is None else value for name in self._fields)
            return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
        return columns_of(row, self.num_columns)

    def _line(self, values: Sequence[str]) -> str:
        if self.name != "csv":
            return "\t".join(value.translate(BLANKS) for value in values)
        from regard.data.csv_fields import csv_line

        return csv_line(values, "," if self.table is None else self.table.delimiter)


def columns_of(row: InputRow, count: int) -> list[str]:
    """The columns of the input's line, or the `count` columns of its text."""
    if isinstance(row.kept, list) and all(isinstance(column, str) for column in row.kept):
        return row.kept
    columns: list[str] = row.text.split("\t", count - 1)
    return columns


def _record(row: InputRow, prediction: dict[str, Any]) -> dict[str, Any]:
    if isinstance(row.kept, dict):
        return {**row.kept, "prediction": prediction}
    return {"input": row.text, **({"columns": row.kept} if isinstance(row.kept, list) else {}), **prediction}


@dataclass(frozen=True)
class PredictionFiles:
    """Writes files for each prediction into a folder.

    Raises:
        RegardError: for a folder that is a file.
    """

    folder: Path
    suffixes: Sequence[str]
    overwrite: bool

    def __post_init__(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise RegardError(f"--files {self.folder}: expected a folder; this is a file.")

    def check(self, number: int, text: str) -> None:
        """Raises RegardError for files that exist and may not be replaced, before their prediction is computed."""
        stem = self._stem(number, text)
        for suffix in self.suffixes:
            check_output(stem.with_name(f"{stem.name}.{suffix}"), overwrite=self.overwrite)

    def write(self, model: AbstractModel[Any], number: int, text: str, prediction: Any) -> Sequence[Path]:
        """Writes the files of a prediction, named by its number and the first letters of its text."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return model.write(prediction, self._stem(number, text))

    def _stem(self, number: int, text: str) -> Path:
        letters = "".join(c if c.isalnum() else "_" for c in text[:LONGEST_NAME]).strip("_")
        return self.folder / f"{number:04}_{letters}".rstrip("_")
