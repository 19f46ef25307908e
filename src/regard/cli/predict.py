"""`regard predict`"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from regard.cli import inputs, options
from regard.cli.files import PredictionFiles
from regard.cli.inputs import STDIN, Inputs
from regard.cli.progress import Meter, ProgressLine, Unfinished, terminable
from regard.cli.standard import BLANKS, FAILED, check_output, format_of_output, plain, results, safe, say
from regard.errors import DataError, InputError, RegardError

if TYPE_CHECKING:
    from regard.data.input_rows import InputRow, InputTable
    from regard.runs.contract import AbstractModel, AnyPrediction


def predict(
    context: typer.Context,
    model: options.Model,
    argument: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help="Texts, or files if the model reads files; or stdin.")
    ] = None,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="A file of inputs; - is stdin.")
    ] = None,
    source_field: options.SourceField = None,
    input_format: Annotated[
        inputs.FormName,
        typer.Option(
            "--input-format",
            metavar="FORM",
            help="How inputs are read: lines, tsv, csv, jsonl, or training: as `data.train`; auto goes by the suffix "
            "and by the first lines.",
        ),
    ] = "auto",
    output: options.Output = None,
    overwrite: options.Overwrite = False,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="tsv: input, output[, score]; text: output; jsonl: objects; csv: a table, of models that read files. "
            "jsonl for JSONL inputs, else the first that the model has.",
        ),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="A further column: the score or probability of the output.")
    ] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="In jsonl: the weights (output by input). In csv: a table of weights.")
    ] = False,
    constraints: Annotated[
        str | None,
        typer.Option(
            "--constraints",
            metavar="FIELD",
            help="A field of JSONL inputs that has an object with prefix, include, exclude for its output.",
        ),
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(
            "--files",
            metavar="FOLDER",
            help="Of speech: write the sound, spectrogram and alignment of every text here.",
        ),
    ] = None,
    vocoder: options.Vocoder = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print outputs as they come: each symbol once it is certain.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the same command was stopped: after OUTPUT.N.partial.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first input with a warning.")] = False,
    device: options.Device = "auto",
    profile: Annotated[
        bool, typer.Option("--profile", help="Say on stderr where the time went and which paths were taken.")
    ] = False,
) -> None:
    """Print the outputs of texts, a line each: input, tab, output.

    A .tsv file, and any file with --source-field, keeps its columns, and the output is one more. A .jsonl file keeps
    its fields beside a new one, `prediction`. Any other file has one input per line. A model whose inputs have several
    columns reads them from columns, too. A model whose inputs are files prints a table.

    With --constraints FIELD, each line of a .jsonl file may say how its output begins and which texts it contains and
    does not contain: {"prefix": "Das", "include": ["Haus"], "exclude": []}.

    With --num-best above 1 or --scores a last column has the score. Tabs and line ends within texts become spaces in
    TSV; jsonl has everything exactly.

    With --stream the text of an output is printed while it is searched for. Inputs are searched for together; what is
    known of later ones waits for those before them.

    With --files FOLDER a model of speech writes NUMBER_TEXT.wav, .mel.npy and .alignment.npy for every text, and the
    last column names the sound. Without it no sound is made.

    An input that cannot be handled as it is does not stop the others: its warning goes to stderr. The exit status is 1
    if there are inputs without an output. An output file appears when all is done. A prediction that Ctrl-C or SIGTERM
    stops keeps what was done in OUTPUT.N.partial, after N inputs, and --resume goes on there.

    Processes that torchrun has started share the inputs; the first one reads and writes.
    """
    if profile:
        from regard.cli.profile import profiled

        context.with_resource(profiled())
    if argument and input is not None:
        raise RegardError("Give inputs or --input, not both.")
    if argument and source_field is not None:
        raise RegardError("--source-field names columns of a file; arguments have none.")
    check_output(output, overwrite=overwrite, inputs=[input])
    done = 0
    if resume:
        done = Unfinished(output).found()
        if argument or input is None:
            raise RegardError("--resume reads the inputs again: give the --input FILE of the stopped command.")
    source = input or STDIN
    # a file that is missing is noticed before the model is loaded
    opened = None if argument or source.is_dir() else Meter(source)
    loaded = options.load(model, device, options.settings(context))
    if loaded.input_kind == "text" and argument and (named := inputs.file_of(argument)) is not None:
        argument, source, opened = None, named, Meter(named)
    fields, trained = inputs.parse_fields(source_field), loaded.input_fields
    terminal = not argument and source == STDIN and sys.stdin is not None and sys.stdin.isatty()
    if (loaded.input_kind == "file" or opened is None) and input_format != "auto":
        raise RegardError("--input-format is for a file of texts, or stdin.")
    if loaded.input_kind == "file" or argument:
        read = Inputs(inputs.texts(argument or ()))
    elif opened is None:
        read = Inputs(iter(loaded.folder_inputs(source)))
    else:
        read = inputs.opened(loaded, iter(opened), source, fields=fields, form=input_format, peek=not terminal)
    rows, name, table = read.rows, "stdin" if source == STDIN else str(source), read.table
    default = table.format if table is not None and table.format in loaded.formats else loaded.formats[0]
    if format is not None and format not in loaded.formats:
        kinds = ", ".join(loaded.formats)
        raise RegardError(f"--format {format}: models of {loaded.config.task} print one of {kinds}.")
    chosen = format_of_output(output, _suffixes(loaded.formats), default, format)
    if scores and chosen == "text":
        raise RegardError("A text of outputs has no room for scores: use --scores with --format tsv.")
    flags = {
        "--constraints": ("constraints", constraints),
        "--files": ("sound", True if files is not None else None),
        "--vocoder": ("vocoder", vocoder),
    }
    extra = options.accepted(loaded, "predict", flags)
    if vocoder is not None and files is None:
        raise RegardError("--vocoder makes sounds; say where they go: --files FOLDER.")
    folder = None if files is None else PredictionFiles(files, loaded.file_formats, overwrite=overwrite)
    whole = folder is not None or (scores and bool(loaded.file_formats))  # files and scores are of alignments
    if loaded.file_formats:
        extra.setdefault("sound", False)
    to_terminal = output is None and sys.stdout is not None and sys.stdout.isatty()
    if loaded.input_kind == "file":
        names = argument or ([] if input is None else [str(input)])
        with Writer(output, done, lambda: None, visible=not to_terminal) as target:
            _print_files(loaded, names, chosen, target, scores=scores, alignments=alignments, strict=strict)
        target.finish()
        return
    if alignments and chosen != "jsonl":
        raise RegardError(f"{chosen.upper()} has no room for weights: use --alignments with --format jsonl.")
    if stream:
        given = {"--scores": scores, "--output": output, "--constraints": constraints, "--files": files}
        _check_stream(loaded, chosen, given)
    _say_names_of_files(argument or ())
    if terminal:
        say("One input a line; Ctrl-D ends.")
    if constraints and not read.is_json:
        raise RegardError("--constraints names a field of JSONL inputs: use --input FILE.jsonl.")

    if stream:
        failed = sum(
            _print_stream(loaded, chunk, len(trained) if chosen == "tsv" else 0, strict=strict)
            for chunk in inputs.chunks(rows, one_by_one=terminal)
        )
        _say_failed(failed)
        return

    page = LineWriter(loaded, chosen, table, len(trained), scores=scores, has_files=folder is not None)

    def answer(numbered: tuple[int, list[InputRow]]) -> list[Answer]:
        begun, chunk = numbered
        texts = [row.text for row in chunk]
        if folder is not None:
            for number, text in enumerate(texts, start=begun + 1):
                folder.check(number, text)
        everything = begun == 0 and not terminal and not inputs.is_full(chunk)
        with options.kernels_for(loaded, texts) if everything else nullcontext():
            predictions = _predicted(loaded, chunk, extra, alignments=alignments or whole)
        answers = []
        for number, (row, prediction) in enumerate(zip(chunk, predictions, strict=True), start=begun + 1):
            prediction, failed = _judged(loaded, row, prediction)
            written = [] if folder is None else folder.write(loaded, number, row.text, prediction)
            if whole and not alignments and chosen == "jsonl":
                prediction = replace(prediction, alignment=None)
            answers.append(
                replace(page.answer(row, prediction, written), warning=_warning(row, prediction), failed=failed)
            )
        return answers

    from regard.training import processes
    from regard.training.processes import in_order

    if constraints:
        rows = _with_field(rows, str(constraints), name)
    chunks = _numbered(inputs.chunks(islice(rows, done, None), one_by_one=terminal), done)
    share = (lambda: None) if opened is None else (lambda: opened.share)
    with (
        processes.joined(loaded.device),
        processes.held(lambda: Writer(output, done, share, visible=not (terminal or to_terminal))) as shared,
        closing(in_order(chunks, answer)) as answered,
    ):
        for answers in answered:
            if (writer := shared) is not None:
                writer.print(() if writer.progress.done else page.heading(answers))
                for each in answers:
                    _warn(each.warning, strict=strict)
                    writer.print([each.text])
                writer.advance(len(answers))
                writer.failed += sum(each.failed for each in answers)
    if shared is not None:
        shared.finish()


class Writer:
    """Writes outputs, shows how far they are, and keeps them if they are stopped; a context manager."""

    def __init__(self, output: Path | None, done: int, share: Callable[[], float | None], *, visible: bool) -> None:
        self.progress, self.failed = ProgressLine(share, visible, done), 0
        self._unfinished, self._output = Unfinished(output), output
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(terminable())
            self._stream = stack.enter_context(
                results(self._output, partial=lambda: self._unfinished.keep(self.progress.done))
            )
            stack.enter_context(self.progress)
            if self.progress.done:
                self._unfinished.copy(self.progress.done, self._stream)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def print(self, lines: Iterable[str]) -> None:
        """Writes lines."""
        for line in lines:
            print(line, file=self._stream)

    def advance(self, count: int) -> None:
        """Notes that all lines of so many further inputs are written."""
        self._stream.flush()
        self.progress.advance(count)

    def finish(self) -> None:
        """Ends the command once the output is there.

        Raises:
            typer.Exit: with status 1 if inputs have no output.
        """
        self._unfinished.remove()
        _say_failed(self.failed)


def _say_failed(count: int) -> None:
    if count:
        say(f"{count:,} input{'s have' if count > 1 else ' has'} no output; see above.")
        raise typer.Exit(FAILED)


def _suffixes(formats: Sequence[str]) -> dict[str, str]:
    """The formats that a model prints, by the suffixes of their files."""
    from regard.data.text_file import TABLES

    own = {f".{format}": format for format in formats if format not in ("tsv", "text", "csv", "jsonl")}
    return {suffix: format for suffix, format in TABLES.items() if format in formats} | own


class LineWriter:
    """Makes lines of predictions."""

    def __init__(
        self,
        model: AbstractModel[Any],
        format: str,
        table: InputTable | None,
        num_columns: int,
        *,
        scores: bool,
        has_files: bool,
    ) -> None:
        self.model, self.format, self.num_columns, self.scores = model, format, num_columns, scores
        self.header = () if table is None else table.header
        self.delimiter = "," if table is None else table.delimiter
        self.has_files = has_files

    def answer(self, row: InputRow, prediction: Any, files: Sequence[Path]) -> Answer:
        """The lines of a prediction."""
        if self.format == "jsonl":
            record = self.model.record(prediction)
            if self.has_files:
                record["files"] = [str(path) for path in files]
            return Answer(json.dumps(plain(_record(row, record)), ensure_ascii=False, allow_nan=False))
        if self.format not in ("tsv", "text", "csv"):
            return Answer(self.model.formatted(prediction, row.kept, self.format, scores=self.scores))
        kept = [] if self.format == "text" else _columns(row, self.num_columns)
        rows = self.model.rows(prediction, scores=self.scores)
        lines = [self._line([*kept, *columns, *map(str, files[:1])]) for columns in rows]
        return Answer("\n".join(lines), num_kept=len(kept), num_outputs=max(map(len, rows), default=0))

    def heading(self, answers: Sequence[Answer]) -> Sequence[str]:
        """The names of columns, before the first outputs: of CSV, and of TSV whose input has them."""
        if not answers or not (self.format == "csv" or (self.format == "tsv" and self.header)):
            return []
        kept = answers[0].num_kept
        names = list(self.header or (["input"] if kept == 1 else [f"input_{i}" for i in range(kept)]))
        for name in [*self.model.column_names[: answers[0].num_outputs], *["file"] * self.has_files]:
            names.append(name if name not in names else f"{name}_2")
        return [self._line(names)]

    def _line(self, values: Sequence[str]) -> str:
        if self.format != "csv":
            return "\t".join(value.translate(BLANKS) for value in values)
        from regard.data.csv_fields import csv_line

        return csv_line(values, self.delimiter)


def _with_field(rows: Iterable[InputRow], field: str, name: str) -> Iterator[InputRow]:
    """The same rows."""
    from regard.config.spelling import suggestion

    there: dict[str, None] = {}
    for row in rows:
        if isinstance(row.kept, dict) and field not in there:
            there |= dict.fromkeys(row.kept)
        yield row
    if there and field not in there:
        raise DataError(f"{name}: --constraints {field}: no line has this field; {suggestion(field, there)}")


def _numbered(chunks: Iterable[list[InputRow]], begun: int) -> Iterator[tuple[int, list[InputRow]]]:
    """The chunks, each with the number of rows before it, which is `begun` of the first."""
    for chunk in chunks:
        yield begun, chunk
        begun += len(chunk)


def _predicted(
    model: AbstractModel[Any], rows: Sequence[InputRow], extra: Mapping[str, Any], *, alignments: bool
) -> Sequence[Any]:
    """The predictions of inputs.

    Args:
        extra: further arguments of `predict`; `constraints` names the field of the lines that has them.
    """
    texts, field = [row.text for row in rows], extra.get("constraints")
    if field is None:
        return model.predict(texts, alignment=alignments, **extra)
    constraints = [row.kept.get(field) if isinstance(row.kept, dict) else None for row in rows]
    try:
        return model.predict(texts, alignment=alignments, **{**extra, "constraints": constraints})
    except InputError as error:
        raise DataError(f"{rows[error.index].place}: {field}: {error.reason}") from None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is written for an input, how many columns of input and output it has, and what is said about it."""

    text: str
    num_kept: int = 0
    num_outputs: int = 0
    warning: str = ""
    failed: bool = False


def _judged(model: AbstractModel[Any], row: InputRow, prediction: Any) -> tuple[Any, bool]:
    """The prediction, with the reason if its input is refused, and whether an input that is not blank has no output."""
    if row.refusal:
        return replace(prediction, warnings=(row.refusal,)), True
    is_blank = not (row.text.strip() if isinstance(row.text, str) else row.text)
    return prediction, not is_blank and model.has_failed(prediction)


def _print_files(
    model: AbstractModel[Any],
    names: Sequence[str],
    format: str,
    writer: Writer,
    *,
    scores: bool,
    alignments: bool,
    strict: bool,
) -> None:
    """Prints what is predicted from files, which are read together; one that cannot be read stops no other."""
    if not names:
        raise RegardError(f"Models of {model.config.task} read files: give one or more as arguments.")

    def warn(error: DataError) -> None:
        _warn(str(error), strict=strict)
        writer.failed += 1

    given = inputs.named_inputs(model, names, warn)
    given = given[writer.progress.done :]
    size = model.most_inputs or max(1, len(given))
    for begin in range(0, len(given), size):
        chunk = given[begin : begin + size]
        predictions = model.predict([item for _, item in chunk], alignment=alignments)
        for (name, _), prediction in zip(chunk, predictions, strict=True):
            writer.failed += model.has_failed(prediction)
            _warn(_warning_of_file(name, prediction), strict=strict)
        heading = model.heading(format, scores=scores) if not writer.progress.done else []
        printed = model.lines(predictions, format, scores=scores, alignments=alignments)
        writer.print([*heading, *printed])
        writer.advance(len(chunk))


def _warning_of_file(name: str, prediction: AnyPrediction) -> str:
    """The warning about an input, which names it once."""
    text = "; ".join(prediction.warnings)
    return text if text.startswith(name) or not text else f"{name}: {text}"


def _check_stream(model: AbstractModel[Any], format: str, flags: Mapping[str, object]) -> None:
    """Refuses what cannot be printed as it comes."""
    if not hasattr(model, "stream"):
        raise RegardError(
            f"--stream is not for models of {model.config.task}: their outputs are not made step by step."
        )
    if format not in ("tsv", "text"):
        raise RegardError(f"--stream prints tsv or text, not {format}, whose records are whole.")
    if given := [flag for flag, value in flags.items() if value]:
        raise RegardError(f"--stream does not combine with {given[0]}, which needs whole outputs.")


def _print_stream(model: Any, rows: Sequence[InputRow], num_columns: int, *, strict: bool) -> int:
    """Prints outputs as they come, in the order of their inputs, and returns how many inputs have none.

    Args:
        num_columns: columns of an input, which are printed before its output; 0: they are not.
    """
    waiting: list[list[Any]] = [[] for _ in rows]
    turn, failed, stream = 0, 0, safe(sys.stdout)

    def begin() -> None:
        if turn < len(rows) and num_columns:
            columns = (column.translate(BLANKS) for column in _columns(rows[turn], num_columns))
            print(*columns, "", sep="\t", end="", file=stream, flush=True)

    pieces = model.stream([row.text for row in rows], alignment=False)  # refuses settings before anything is printed
    begin()
    for piece in pieces:
        waiting[piece.index].append(piece)
        while turn < len(rows) and waiting[turn]:
            for each in waiting[turn]:
                text = each.text.replace("\n", model.line_end).translate(BLANKS)
                print(text, end="", file=stream, flush=True)
            last, waiting[turn] = waiting[turn][-1].prediction, []
            if last is None:
                break
            print(file=stream, flush=True)
            last, has_failed = _judged(model, rows[turn], last)
            failed += has_failed
            _warn(_warning(rows[turn], last), strict=strict)
            turn += 1
            begin()
    return failed


def _warn(warning: str, *, strict: bool) -> None:
    if warning and strict:
        raise DataError(f"{warning}\n  Without --strict it is a warning.")
    if warning:
        say(warning)


def _say_names_of_files(arguments: Sequence[str]) -> None:
    """Notes about texts that are names of files."""
    for number, argument in enumerate(arguments, start=1):
        if len(argument) < inputs.LONGEST_NAME and Path(argument).is_file():
            say(f"argument {number}: {argument!r} is read as a text; the file of that name is read with --input.")


def _warning(row: InputRow, prediction: AnyPrediction) -> str:
    return f"{row.place}: {row.text[:60]!r}: {'; '.join(prediction.warnings)}" if prediction.warnings else ""


def _columns(row: InputRow, count: int) -> list[str]:
    """The columns of the input's line, or of its text, which has `count`."""
    if isinstance(row.kept, list) and all(isinstance(column, str) for column in row.kept):
        columns: list[str] = row.kept
    else:
        columns = row.text.split("\t", count - 1)
    return columns


def _record(row: InputRow, prediction: dict[str, Any]) -> dict[str, Any]:
    if isinstance(row.kept, dict):
        return {**row.kept, "prediction": prediction}
    return {"input": row.text, **({"columns": row.kept} if isinstance(row.kept, list) else {}), **prediction}
