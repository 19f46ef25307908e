"""`regard predict`"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import inputs, options, parquet
from regard.cli.flags import PREFIX
from regard.cli.inputs import STDIN, Chunk, Inputs
from regard.cli.outputs import LineFormat, Output, PredictionFiles, Writer, check_failed, columns_of, finish
from regard.cli.progress import Meter
from regard.cli.standard import BLANKS, TERMINATED, Terminated, check_output, format_of_output, safe, say
from regard.cli.unfinished import Unfinished
from regard.errors import DataError, InputError, RegardError

UNRELATED = ("argument", "device", "input", "on", "output", "overwrite", "profile", "resume", "strict", "workers")
"""Flags that outputs of files do not depend on."""

if TYPE_CHECKING:
    from regard.cli.unfinished import Progress
    from regard.data.input_rows import InputRow
    from regard.runs.calibration import Stated
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
            help="tsv, csv: columns of the input, output[, score]; text: outputs; jsonl: objects; parquet: as csv. "
            "Default: by the suffix of --output; else jsonl for JSONL, csv for CSV, or the first that the model has.",
        ),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="A further column: the score or probability of the output.")
    ] = False,
    confidence: Annotated[
        bool,
        typer.Option("--confidence", help="A further column: the probability, 0 to 1, that the output is right."),
    ] = False,
    at_least: Annotated[
        float | None,
        typer.Option(
            "--at-least",
            metavar="P",
            min=0,
            max=1,
            help="Leave outputs with less confidence empty, 0.9 for example; jsonl keeps them, marked as abstained.",
        ),
    ] = None,
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
    normaliser: options.Normaliser = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print outputs as they come: each symbol once it is certain.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the same command was stopped or killed, after OUTPUT.partial.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first input with a warning.")] = False,
    device: options.Device = "auto",
    on: options.On = None,
    workers: options.NumWorkers = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Say on stderr where the time went and which paths were taken.")
    ] = False,
) -> None:
    """Print the outputs of texts, a line each: input, tab, output.

    A .tsv file, and any file with --source-field, keeps its columns and gets a new one. A .jsonl file keeps its fields
    and gets a new one, `prediction`. Any other file has one input per line. A model whose inputs have several columns
    reads them from columns, too. A model whose inputs are files prints a table.

    With --constraints FIELD, each line of a .jsonl file may say how its output begins and which texts it contains and
    does not contain: {"prefix": "Das", "include": ["Haus"], "exclude": []}.

    With --num-best above 1 or --scores a last column has the score. Tabs and line ends within texts become spaces in
    TSV; jsonl has everything exactly.

    With --confidence outputs have the probability that they are right, at the temperature that the training fitted to
    held-out data; --at-least 0.9 leaves the others empty and counts them.

    With --stream the text of an output is printed while it is searched for. Inputs are searched for together; what is
    known of later ones waits for those before them.

    With --files FOLDER a model of speech writes NUMBER_TEXT.wav, .mel.npy and .alignment.npy for every text, and the
    last column names the sound. Without it no sound is made.

    An input that cannot be handled as it is does not stop the others: its warning goes to stderr. The exit status is 1
    if there are inputs without an output. An output file appears when all is done; until then OUTPUT.partial grows.
    However a prediction is stopped or killed, the same command with --resume continues it; another one replaces it.

    Processes that torchrun has started share the inputs; the first one reads and writes. With --on ray workers of a
    Ray cluster share them.
    """
    options.check_on(on, workers, device, {"--stream": stream, "--files": files, "--profile": profile})
    if profile:
        from regard.cli.profile import profiled

        context.with_resource(profiled())
    if argument and input is not None:
        raise RegardError("Give inputs or --input, not both.")
    if argument and source_field is not None:
        raise RegardError("--source-field names columns of a file; arguments have none.")
    if resume and (argument or input is None):
        raise RegardError("--resume reads the inputs again: give the --input FILE of the stopped command.")
    unfinished = Unfinished(output)
    if resume:
        unfinished.read()
    check_output(output, overwrite=overwrite or unfinished.progress.is_complete, inputs=[input])
    if unfinished.has_ended:
        say(f"{output} is complete.")
        finish(unfinished)
        return
    source = input or STDIN
    # a missing file is an error before the model is loaded
    opened = None if argument or source.is_dir() else Meter(source)
    loaded = options.load(model, "cpu" if on else device, options.settings(context), normaliser=normaliser)
    if loaded.input_kind == "text" and argument and (named := inputs.file_of(argument)) is not None:
        argument, source, opened = None, named, Meter(named)
    fields, trained = inputs.parse_fields(source_field), loaded.input_fields
    if on and (loaded.input_kind == "file" or loaded.sounds):
        raise RegardError(f"--on ray is for models that turn texts into texts or labels, not for {loaded.config.task}.")
    terminal = not argument and source == STDIN and sys.stdin is not None and sys.stdin.isatty()
    if (loaded.input_kind == "file" or opened is None) and input_format != "auto":
        raise RegardError("--input-format is for a file of texts, or stdin.")
    if loaded.input_kind == "file" or argument:
        read = Inputs(inputs.texts(argument or ()))
    elif opened is None:
        read = Inputs(iter(loaded.folder_inputs(source)))
    else:
        read = inputs.opened(loaded, iter(opened), source, fields=fields, form=input_format, peek=not terminal)
    rows, table = read.rows, read.table
    default = table.format if table is not None and table.format in loaded.formats else loaded.formats[0]
    formats = (*loaded.formats, *([parquet.NAME] if "csv" in loaded.formats else []), *loaded.sounds)
    if format is not None and format not in formats:
        raise RegardError(f"--format {format}: models of {loaded.config.task} print one of {', '.join(formats)}.")
    by_text = [".txt"] if format is None else []
    suffixes = _suffixes(formats) | (dict.fromkeys(by_text, "text") if "text" in formats else {})
    chosen, convert = format_of_output(output, suffixes, default, format, refused=by_text), None
    if chosen == parquet.NAME:  # lines of CSV until all are there
        chosen, convert = "csv", parquet.converter(output, loaded.is_number)
        table = None if table is None else replace(table, delimiter=",")
    if scores and chosen == "text":
        raise RegardError("--format text has outputs only: use --scores with --format tsv.")
    if confidence and chosen == "text":
        raise RegardError("--format text has outputs only: use --confidence with --format tsv.")
    stated = options.stated(loaded, shown=confidence, at_least=at_least)
    flags = {
        "--constraints": ("constraints", constraints),
        "--files": ("sound", True if files is not None else None),
        "--vocoder": ("vocoder", vocoder),
    }
    extra = options.accepted(loaded, "predict", flags)
    if vocoder is not None and files is None and chosen not in loaded.sounds:
        raise RegardError("--vocoder is for sound files: add --files FOLDER.")
    folder = None if files is None else PredictionFiles(files, loaded.file_formats, overwrite=overwrite or resume)
    # files and scores of speech need the alignments
    whole = folder is not None or (scores and bool(loaded.file_formats))
    if loaded.file_formats:
        extra.setdefault("sound", False)
    unfinished.require(_settings(context, loaded, chosen))
    to_terminal = output is None and sys.stdout is not None and sys.stdout.isatty()
    if loaded.input_kind == "file":
        names = argument or ([] if input is None else [str(input)])
        with Writer(unfinished, lambda: None, visible=not to_terminal, convert=convert) as target:
            _print_files(
                loaded,
                names,
                chosen,
                target,
                unfinished.progress,
                stated,
                scores=scores,
                alignments=alignments,
                strict=strict,
            )
        finish(unfinished)
        return
    if alignments and chosen != "jsonl":
        raise RegardError(f"--format {chosen} has no weights: use --alignments with --format jsonl.")
    if stream:
        whole_outputs = {"--scores": scores, "--confidence": confidence, "--at-least": at_least is not None}
        _check_stream(
            loaded, chosen, {**whole_outputs, "--output": output, "--constraints": constraints, "--files": files}
        )
    for number, word in enumerate(argument or (), start=1):
        if len(word) < inputs.LONGEST_NAME and Path(word).is_file():
            say(f"argument {number}: {word!r} is read as a text; --input reads the file of that name.")
    if chosen in loaded.sounds:
        _write_sound(loaded, list(rows), output, extra, {"--scores": scores, "--files": files, "--resume": resume})
        return
    if terminal and on:
        raise RegardError("--on ray reads a file or a pipe: add --input FILE.")
    if terminal:
        say("One input per line; Ctrl-D ends.")
    if constraints and not read.is_json:
        raise RegardError("--constraints names a field of JSONL inputs: use --input FILE.jsonl.")

    size = inputs.ChunkSize(unfinished.progress.chunk_rows)
    if stream:
        failed = 0
        for chunk in inputs.chunks(rows, size, one_by_one=terminal):
            failed += _print_stream(loaded, chunk.rows, len(trained) if chosen == "tsv" else 0, strict=strict)
            size.grow()
        check_failed(failed)
        return

    lines = LineFormat(loaded, chosen, table, len(trained), scores, folder is not None, stated)

    def outputs_of(chunk: Chunk) -> tuple[int, list[Output]]:
        texts = [row.text for row in chunk.rows]
        if folder is not None:
            for number, text in enumerate(texts, start=chunk.before + 1):
                folder.check(number, text)
        is_all = chunk.before == 0 and not terminal and not inputs.is_full(chunk.rows)
        with options.kernels_for(loaded, texts) if is_all else nullcontext():
            predictions = _predicted(loaded, chunk.rows, extra, alignments=alignments or whole)
        outputs = []
        for number, (row, prediction) in enumerate(zip(chunk.rows, predictions, strict=True), start=chunk.before + 1):
            prediction, failed = _judged(loaded, row, prediction)
            written = [] if folder is None else folder.write(loaded, number, row.text, prediction)
            if whole and not alignments and chosen == "jsonl":
                prediction = replace(prediction, alignment=None)
            each = lines.output(row, prediction, written)
            withheld = not failed and stated.at_least > 0 and stated.withholds(prediction.confidence)
            outputs.append(replace(each, warning=_warning(row, prediction), failed=failed, withheld=withheld))
        return chunk.checksum, outputs

    from regard.training import processes
    from regard.training.processes import in_order

    if constraints:
        rows = _with_field(rows, constraints, "stdin" if source == STDIN else str(source))
    chunks = inputs.chunks(rows, size, one_by_one=terminal, done=unfinished.progress)
    share = (lambda: None) if opened is None else (lambda: opened.share)
    with (
        processes.joined(loaded.device),
        processes.held(
            lambda: Writer(unfinished, share, visible=not (terminal or to_terminal), convert=convert)
        ) as shared,
        closing(
            in_order(chunks, outputs_of) if on is None else _on_ray(chunks, outputs_of, loaded, workers, device)
        ) as results,
    ):
        for checksum, outputs in results:
            if (writer := shared) is not None:
                writer.print(() if writer.progress.done else lines.heading(outputs))
                for each in outputs:
                    _warn(each.warning, strict=strict)
                    writer.print([each.text])
                writer.failed += sum(each.failed for each in outputs)
                writer.withheld += sum(each.withheld for each in outputs)
                size.grow()
                writer.advance(len(outputs), checksum, size.rows)
    if shared is not None:
        finish(unfinished)


def _settings(context: typer.Context, model: AbstractModel[Any], format: str) -> dict[str, Any]:
    """What outputs depend on, besides the inputs."""
    flags = {name.removeprefix(PREFIX): value for name, value in context.params.items() if name not in UNRELATED}
    return {
        **{name: value for name, value in flags.items() if value not in (None, False)},
        "format": format,
        "model": [model.digest, repr(model.calibration), repr(model.config.decoding)],
    }


def _suffixes(formats: Sequence[str]) -> dict[str, str]:
    """The formats of a model by the suffixes of their files."""
    from regard.data.text_file import TABLES

    further = {f".{format}": format for format in formats if format not in ("tsv", "text", "csv", "jsonl")}
    further |= dict.fromkeys(parquet.SUFFIXES, parquet.NAME) if parquet.NAME in formats else {}
    return {suffix: format for suffix, format in TABLES.items() if format in formats} | further


def _write_sound(
    model: AbstractModel[Any],
    rows: Sequence[InputRow],
    output: Path | None,
    extra: Mapping[str, Any],
    flags: Mapping[str, object],
) -> None:
    """Writes the sound of a single text."""
    if output is None:
        raise RegardError("A sound is written into a file: add --output FILE.wav.")
    if set_flags := [flag for flag, value in flags.items() if value]:
        raise RegardError(f"{output} is a sound; leave out {set_flags[0]}.")
    if len(rows) != 1:
        raise RegardError(f"{output} is the sound of one text, not of {len(rows):,}; --files FOLDER writes several.")
    (prediction,) = model.predict([rows[0].text], **{**extra, "sound": True})
    _warn(_warning(rows[0], prediction), strict=False)
    check_failed(int(model.has_failed(prediction)))
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as folder:
        files = model.write(prediction, Path(folder) / "sound")
        os.replace(next(file for file in files if file.suffix == output.suffix.lower()), output)


def _with_field(rows: Iterable[InputRow], field: str, name: str) -> Iterator[InputRow]:
    """The rows; raises DataError at their end if none has the field."""
    from regard.config.spelling import suggestion

    fields: dict[str, None] = {}
    for row in rows:
        if isinstance(row.kept, dict) and field not in fields:
            fields |= dict.fromkeys(row.kept)
        yield row
    if fields and field not in fields:
        raise DataError(f"{name}: --constraints {field}: no line has this field; {suggestion(field, fields)}")


def _on_ray(
    chunks: Iterable[Chunk],
    work: Callable[[Chunk], tuple[int, list[Output]]],
    model: AbstractModel[Any],
    num_workers: int | None,
    device: str,
) -> Generator[tuple[int, list[Output]], None, None]:
    """The outputs of chunks, in order, by workers of a Ray cluster (`processes.in_order`)."""
    from regard.runs.cluster import connected
    from regard.runs.workers import WorkerPool

    def name(chunk: Chunk) -> str:
        return f"the inputs {chunk.rows[0].place} to {chunk.rows[-1].place}"

    with (
        connected(num_workers, device) as cluster,
        WorkerPool(cluster, model, work, name=name, tell=say) as pool,
    ):
        try:
            yield from pool.in_order(chunks)
        except SystemExit as error:  # Ray raises its own in place of that of SIGTERM
            raise Terminated(TERMINATED) from error


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


def _judged(model: AbstractModel[Any], row: InputRow, prediction: Any) -> tuple[Any, bool]:
    """The prediction, with the reason of a refused input, and whether an input that is not blank has no output."""
    if row.refusal:
        return replace(prediction, warnings=(row.refusal,)), True
    is_blank = not (row.text.strip() if isinstance(row.text, str) else row.text)
    return prediction, not is_blank and model.has_failed(prediction)


def _print_files(
    model: AbstractModel[Any],
    names: Sequence[str],
    format: str,
    writer: Writer,
    done: Progress,
    stated: Stated,
    *,
    scores: bool,
    alignments: bool,
    strict: bool,
) -> None:
    """Prints the predictions of files; a file that cannot be read is a warning."""
    if not names:
        raise RegardError(f"Models of {model.config.task} read files: give one or more as arguments.")

    def warn(error: DataError) -> None:
        _warn(str(error), strict=strict)
        writer.failed += not done.inputs  # counted by the stopped command

    named = inputs.named_inputs(model, names, warn)
    checksum = inputs.checksum_of(named[: done.inputs])
    inputs.require_same(done, min(done.inputs, len(named)), checksum, "the input")
    size = model.most_inputs or max(1, len(named))
    writer.progress.share = lambda: writer.progress.done / len(named)
    for start in range(done.inputs, len(named), size):
        chunk = named[start : start + size]
        checksum = inputs.checksum_of(chunk, checksum)
        predictions = model.predict([item for _, item in chunk], alignment=alignments)
        for (name, _), prediction in zip(chunk, predictions, strict=True):
            failed = model.has_failed(prediction)
            writer.failed += failed
            writer.withheld += not failed and stated.at_least > 0 and stated.withholds(prediction.confidence)
            text = "; ".join(prediction.warnings)
            _warn(text if text.startswith(name) or not text else f"{name}: {text}", strict=strict)
        heading = model.heading(format, scores=scores, stated=stated) if not writer.progress.done else []
        printed = model.lines(predictions, format, scores=scores, alignments=alignments, stated=stated)
        writer.print([*heading, *printed])
        writer.advance(len(chunk), checksum)


def _check_stream(model: AbstractModel[Any], format: str, flags: Mapping[str, object]) -> None:
    """Raises RegardError for models, formats and flags that do not combine with --stream."""
    if not hasattr(model, "stream"):
        raise RegardError(f"--stream is not for models of {model.config.task}, which do not predict step by step.")
    if format not in ("tsv", "text"):
        raise RegardError(f"--stream prints tsv or text, not {format}, whose records are whole.")
    if set_flags := [flag for flag, value in flags.items() if value]:
        raise RegardError(f"--stream does not combine with {set_flags[0]}, which needs whole outputs.")


def _print_stream(model: Any, rows: Sequence[InputRow], num_columns: int, *, strict: bool) -> int:
    """Prints outputs while they are decoded, in the order of their inputs; returns the number of inputs without one.

    Args:
        num_columns: the columns of an input that are printed before its output; 0: none.
    """
    waiting: list[list[Any]] = [[] for _ in rows]
    turn, failed, stream = 0, 0, safe(sys.stdout)

    def begin() -> None:
        if turn < len(rows) and num_columns:
            columns = (column.translate(BLANKS) for column in columns_of(rows[turn], num_columns))
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


def _warning(row: InputRow, prediction: AnyPrediction) -> str:
    return f"{row.place}: {row.text[:60]!r}: {'; '.join(prediction.warnings)}" if prediction.warnings else ""
