"""`regard predict`"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli import inputs, options
from regard.cli.inputs import STDIN, Row
from regard.cli.standard import check_output, finite, lines, plain, results, say
from regard.errors import DataError, RegardError

if TYPE_CHECKING:
    from regard.decoding import Prediction

DECIMALS = 6
LONGEST_NAME = 200
BLANKS = dict.fromkeys(map(ord, "\t\r\n"), " ")


def predict(
    context: typer.Context,
    model: options.Model,
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Inputs; stdin when there are none.")] = None,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="A file of inputs; - is stdin.")
    ] = None,
    source_field: options.SourceField = None,
    output: options.Output = None,
    overwrite: options.Overwrite = False,
    format: Annotated[
        Literal["tsv", "text", "jsonl"] | None,
        typer.Option(
            help="tsv: input, output[, score]; text: output; jsonl: objects. jsonl for JSONL inputs, tsv for others."
        ),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="A further TSV column: the score that ranked the output.")
    ] = False,
    alignments: Annotated[bool, typer.Option("--alignments", help="In jsonl: the weights (output by input).")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first input with a warning.")] = False,
    num_best: options.NumBest = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    alpha: options.Alpha = None,
    min_length: options.MinLength = None,
    max_length: options.MaxLength = None,
    max_source_length: options.MaxSourceLength = None,
    batch_tokens: options.BatchTokens = None,
    device: options.Device = "auto",
    profile: Annotated[
        bool, typer.Option("--profile", help="Say on stderr where the time went and which paths were taken.")
    ] = False,
) -> None:
    """Print the outputs of texts, a line each: input, tab, output.

    A .tsv file, and any file with --source-field, keeps its columns, and the output is one more. A .jsonl file keeps
    its fields beside a new one, `prediction`. Any other file has one input per line. A model whose inputs have several
    columns reads them from columns, too.

    With --num-best above 1 or --scores a last column has the score. Tabs and line ends within texts become spaces in
    TSV; jsonl has everything exactly.

    An input that cannot be handled as it is does not stop the others: its warning goes to stderr. An output file
    appears when all is done.

    Processes that torchrun has started share the inputs; the first one reads and writes.
    """
    if profile:
        from regard.cli.profile import profiled

        context.with_resource(profiled())
    if text and input is not None:
        raise RegardError("Give texts or --input, not both.")
    if text and source_field is not None:
        raise RegardError("--source-field names columns of a file; texts have none.")
    source = input or STDIN
    fields = inputs.parse_fields(source_field)
    as_json = format == "jsonl" or (format is None and not text and inputs.by_suffix(source) == "jsonl")
    if scores and format == "text":
        raise RegardError("A text of outputs has no room for scores: use --scores with --format tsv.")
    if alignments and not as_json:
        raise RegardError("TSV has no room for weights: use --alignments with --format jsonl.")
    if output is not None and output.exists() and source.exists() and output.samefile(source):
        raise RegardError(f"{output}: --output would overwrite --input.")
    check_output(output, overwrite=overwrite)
    for number, argument in enumerate(text or (), start=1):
        if len(argument) < LONGEST_NAME and Path(argument).is_file():
            say(f"argument {number}: {argument!r} is read as a text; the file of that name is read with --input.")
    opened = None if text else lines(source)  # a file that is missing is noticed before the model is loaded
    loaded = options.load(model, device)
    settings = options.only_given(
        beam=beam,
        num_best=num_best,
        length_penalty=length_penalty,
        alpha=alpha,
        min_length=min_length,
        max_length=max_length,
        max_source_length=max_source_length,
        batch_tokens=batch_tokens,
    )
    scores = scores or (num_best or loaded.config.decoding.num_best) > 1
    terminal = not text and source == STDIN and sys.stdin is not None and sys.stdin.isatty()
    if terminal:
        say("One input a line; Ctrl-D ends.")
    data = loaded.config.data
    kind = inputs.format_of(source, fields, num_columns=data.num_columns)
    trained = data.source_field if isinstance(data.source_field, tuple) else (data.source_field,)
    name = "stdin" if source == STDIN else str(source)
    rows = inputs.texts(text or ()) if opened is None else inputs.read(opened, name, kind, fields, trained)

    def answer(numbered: tuple[int, list[Row]]) -> list[Answer]:
        index, chunk = numbered
        texts = [row.text for row in chunk]
        everything = index == 0 and not terminal and not inputs.is_full(chunk)
        with options.kernels_for(loaded, texts, beam) if everything else nullcontext():
            predictions = loaded.predict(texts, alignment=alignments, **settings)
        answers = []
        for row, prediction in zip(chunk, predictions, strict=True):
            if row.refusal:
                prediction = replace(prediction, warnings=(row.refusal,))
            if as_json:
                shown = json.dumps(plain(_record(row, prediction)), ensure_ascii=False, allow_nan=False)
            elif format == "text":
                shown = "\n".join(each.text.translate(BLANKS) for each in (prediction, *prediction.alternatives))
            else:
                shown = "\n".join(_tsv(row, prediction, scores=scores, columns=data.num_columns))
            answers.append(Answer(shown, _warning(row, prediction)))
        return answers

    from regard.training import processes
    from regard.training.ordering import in_order

    chunks = enumerate(inputs.chunks(rows, one_by_one=terminal))
    with (
        processes.joined(loaded.device),
        processes.held(lambda: results(output)) as stream,
        closing(in_order(chunks, answer)) as answered,
    ):
        for answers in answered:
            for each in answers:
                if each.warning and strict:
                    raise DataError(f"{each.warning}\n  Without --strict it is a warning.")
                if each.warning:
                    say(each.warning)
                print(each.text, file=stream)
            if stream is not None:
                stream.flush()


@dataclass(frozen=True, slots=True)
class Answer:
    """What is written for an input, and what is said about it."""

    text: str
    warning: str


def _warning(row: Row, prediction: Prediction) -> str:
    return f"{row.place}: {row.text[:60]!r}: {'; '.join(prediction.warnings)}" if prediction.warnings else ""


def _tsv(row: Row, prediction: Prediction, *, scores: bool, columns: int) -> Iterator[str]:
    if isinstance(row.kept, list) and all(isinstance(column, str) for column in row.kept):
        kept = [column.translate(BLANKS) for column in row.kept]
    else:
        kept = [column.translate(BLANKS) for column in row.text.split("\t", columns - 1)]
    for candidate in (prediction, *prediction.alternatives):
        yield "\t".join([*kept, candidate.text.translate(BLANKS), *([f"{candidate.score:.4f}"] if scores else [])])


def _record(row: Row, prediction: Prediction) -> dict[str, Any] | list[Any]:
    result = {
        **_output(prediction),
        "warnings": list(prediction.warnings),
        "alternatives": [_output(other) for other in prediction.alternatives],
    }
    if isinstance(row.kept, dict):
        return {**row.kept, "prediction": result}
    return {"input": row.text, **({} if row.kept is None else {"columns": row.kept}), **result}


def _output(prediction: Prediction) -> dict[str, Any]:
    record: dict[str, Any] = {
        "text": prediction.text,
        "tokens": list(prediction.tokens),
        "score": finite(prediction.score),
        "log_probability": finite(prediction.log_probability),
        "stop_reason": prediction.stop_reason,
    }
    if prediction.alignment is not None:
        record["source_tokens"] = list(prediction.source_tokens)
        rows = prediction.alignment.tolist()
        record["alignment"] = [[finite(round(weight, DECIMALS)) for weight in row] for row in rows]
    return record
