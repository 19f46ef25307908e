"""`regard predict`"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from regard.cli import inputs, options
from regard.cli.files import PredictionFiles
from regard.cli.inputs import STDIN, Inputs
from regard.cli.standard import check_output, format_of_output, lines, plain, results, safe, say
from regard.errors import DataError, InputError, RegardError

if TYPE_CHECKING:
    from regard.data.input_rows import InputRow
    from regard.tasks.contract import AbstractModel, Prediction

LONGEST_NAME = 200
SUFFIXES = {".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""Formats of outputs by the suffix of the file."""
BLANKS = dict.fromkeys(map(ord, "\t\r\n"), " ")


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

    An input that cannot be handled as it is does not stop the others: its warning goes to stderr. An output file
    appears when all is done.

    Processes that torchrun has started share the inputs; the first one reads and writes.
    """
    if profile:
        from regard.cli.profile import profiled

        context.with_resource(profiled())
    if argument and input is not None:
        raise RegardError("Give inputs or --input, not both.")
    if argument and source_field is not None:
        raise RegardError("--source-field names columns of a file; arguments have none.")
    source = input or STDIN
    check_output(output, overwrite=overwrite, inputs=[input])
    format = format_of_output(output, SUFFIXES, "", format) or None
    opened = None if argument else lines(source)  # a file that is missing is noticed before the model is loaded
    loaded = options.load(model, device, options.settings(context))
    fields, trained = inputs.parse_fields(source_field), loaded.input_fields
    terminal = not argument and source == STDIN and sys.stdin is not None and sys.stdin.isatty()
    if loaded.input_kind == "file" or opened is None:
        if input_format != "auto":
            raise RegardError("--input-format is for a file of texts, or stdin.")
        read = Inputs(inputs.texts(argument or ()))
    else:
        read = inputs.opened(loaded, opened, source, fields=fields, form=input_format, peek=not terminal)
    rows, name = read.rows, "stdin" if source == STDIN else str(source)
    suffix = "" if output is None else output.suffix.lower().removeprefix(".")
    own = suffix if suffix in loaded.formats and suffix not in ("tsv", "text", "jsonl", "csv") else None
    chosen = format or own or (read.output if read.output in loaded.formats else None) or loaded.formats[0]
    if chosen not in loaded.formats:
        kinds = ", ".join(loaded.formats)
        raise RegardError(f"--format {chosen}: models of {loaded.config.task} print one of {kinds}.")
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
    if loaded.input_kind == "file":
        with results(output) as written:
            names = argument or ([] if input is None else [str(input)])
            _print_files(loaded, names, chosen, written, scores=scores, alignments=alignments, strict=strict)
        return
    if alignments and chosen != "jsonl":
        raise RegardError("TSV has no room for weights: use --alignments with --format jsonl.")
    if stream:
        given = {"--scores": scores, "--output": output, "--constraints": constraints, "--files": files}
        _check_stream(loaded, chosen, given)
    _say_names_of_files(argument or ())
    if terminal:
        say("One input a line; Ctrl-D ends.")
    if constraints and not read.is_json:
        raise RegardError("--constraints names a field of JSONL inputs: use --input FILE.jsonl.")
    if stream:
        for chunk in inputs.chunks(rows, one_by_one=terminal):
            _print_stream(loaded, chunk, len(trained) if chosen == "tsv" else 0, strict=strict)
        return

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
            if row.refusal:
                prediction = replace(prediction, warnings=(row.refusal,))
            written = [] if folder is None else folder.write(loaded, number, row.text, prediction)
            if chosen == "jsonl":
                if whole and not alignments:
                    prediction = replace(prediction, alignment=None)
                record = loaded.record(prediction)
                if folder is not None:
                    record["files"] = [str(path) for path in written]
                shown = json.dumps(plain(_record(row, record)), ensure_ascii=False, allow_nan=False)
            elif chosen not in ("tsv", "text"):
                shown = loaded.formatted(prediction, row.kept, chosen, scores=scores)
            else:
                kept = [] if chosen == "text" else _columns(row, len(trained))
                shown = "\n".join(
                    "\t".join([*kept, *(column.translate(BLANKS) for column in [*columns, *map(str, written[:1])])])
                    for columns in loaded.rows(prediction, scores=scores)
                )
            answers.append(Answer(shown, _warning(row, prediction)))
        return answers

    from regard.training import processes
    from regard.training.ordering import in_order

    if constraints:
        rows = _with_field(rows, str(constraints), name)
    chunks = _numbered(inputs.chunks(rows, one_by_one=terminal))
    with (
        processes.joined(loaded.device),
        processes.held(lambda: results(output)) as target,
        closing(in_order(chunks, answer)) as answered,
    ):
        for answers in answered:
            for each in answers:
                _warn(each.warning, strict=strict)
                print(each.text, file=target)
            if target is not None:
                target.flush()


def _with_field(rows: Iterable[InputRow], field: str, name: str) -> Iterator[InputRow]:
    """The same rows.

    Raises:
        DataError: after the last one, if none has the field.
    """
    from regard.config.spelling import suggestion

    there: dict[str, None] = {}
    for row in rows:
        if isinstance(row.kept, dict) and field not in there:
            there |= dict.fromkeys(row.kept)
        yield row
    if there and field not in there:
        raise DataError(f"{name}: --constraints {field}: no line has this field; {suggestion(field, there)}")


def _numbered(chunks: Iterable[list[InputRow]]) -> Iterator[tuple[int, list[InputRow]]]:
    """The chunks, each with the number of rows before it."""
    begun = 0
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
    """What is written for an input, and what is said about it."""

    text: str
    warning: str


def _print_files(
    model: AbstractModel[Any],
    names: Sequence[str],
    format: str,
    stream: TextIO,
    *,
    scores: bool,
    alignments: bool,
    strict: bool,
) -> None:
    """Prints what is predicted from files, which are read together."""
    if not names:
        raise RegardError(f"Models of {model.config.task} read files: give one or more as arguments.")
    given = [each for name in names for each in model.inputs(name)]
    for begin in range(0, len(given), model.most_inputs or len(given)):
        chunk = given[begin : begin + (model.most_inputs or len(given))]
        predictions = model.predict([item for _, item in chunk], alignment=alignments)
        for (name, _), prediction in zip(chunk, predictions, strict=True):
            _warn(_warning_of_file(name, prediction), strict=strict)
        for line in model.lines(predictions, format, scores=scores, alignments=alignments):
            print(line, file=stream)


def _warning_of_file(name: str, prediction: Prediction) -> str:
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


def _print_stream(model: Any, rows: Sequence[InputRow], num_columns: int, *, strict: bool) -> None:
    """Prints outputs as they come, in the order of their inputs.

    Args:
        num_columns: columns of an input, which are printed before its output; 0: they are not.
    """
    waiting: list[list[Any]] = [[] for _ in rows]
    turn, stream = 0, safe(sys.stdout)

    def begin() -> None:
        if turn < len(rows) and num_columns:
            print(*_columns(rows[turn], num_columns), "", sep="\t", end="", file=stream, flush=True)

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
            last = replace(last, warnings=(rows[turn].refusal,)) if rows[turn].refusal else last
            _warn(_warning(rows[turn], last), strict=strict)
            turn += 1
            begin()


def _warn(warning: str, *, strict: bool) -> None:
    if warning and strict:
        raise DataError(f"{warning}\n  Without --strict it is a warning.")
    if warning:
        say(warning)


def _say_names_of_files(arguments: Sequence[str]) -> None:
    """Notes about texts that are names of files."""
    for number, argument in enumerate(arguments, start=1):
        if len(argument) < LONGEST_NAME and Path(argument).is_file():
            say(f"argument {number}: {argument!r} is read as a text; the file of that name is read with --input.")


def _warning(row: InputRow, prediction: Prediction) -> str:
    return f"{row.place}: {row.text[:60]!r}: {'; '.join(prediction.warnings)}" if prediction.warnings else ""


def _columns(row: InputRow, count: int) -> list[str]:
    """The columns of the input's line, or of its text, which has `count`."""
    if isinstance(row.kept, list) and all(isinstance(column, str) for column in row.kept):
        columns: list[str] = row.kept
    else:
        columns = row.text.split("\t", count - 1)
    return [column.translate(BLANKS) for column in columns]


def _record(row: InputRow, prediction: dict[str, Any]) -> dict[str, Any]:
    if isinstance(row.kept, dict):
        return {**row.kept, "prediction": prediction}
    return {"input": row.text, **({"columns": row.kept} if isinstance(row.kept, list) else {}), **prediction}
