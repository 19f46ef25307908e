"""`regard predict`"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from regard.cli import options
from regard.cli.standard import finite, lines, results, say
from regard.errors import DataError, RegardError

if TYPE_CHECKING:
    from regard.decoding import Prediction

CHUNK = 1000
"""Inputs decoded before their outputs are written; on a terminal every line is answered at once."""
STDIN = Path("-")
DECIMALS = 6
BLANKS = dict.fromkeys(map(ord, "\t\r\n"), " ")


def predict(
    model: options.Model,
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Inputs; stdin when there are none.")] = None,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="A file of inputs, one a line; - is stdin.")
    ] = None,
    output: options.Output = None,
    format: Annotated[
        Literal["tsv", "jsonl"], typer.Option(help="tsv: input, output[, score]; jsonl: an object an input.")
    ] = "tsv",
    scores: Annotated[
        bool, typer.Option("--scores", help="A third TSV column: the score that ranked the output.")
    ] = False,
    alignments: Annotated[bool, typer.Option("--alignments", help="In jsonl: the weights (output by input).")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first input with a warning.")] = False,
    num_best: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Outputs of each input; as many TSV lines."),
    ] = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    alpha: options.Alpha = None,
    max_length: options.MaxLength = None,
    batch_tokens: options.BatchTokens = None,
    device: options.Device = "auto",
) -> None:
    """Print the outputs of texts, a line each: input, tab, output.

    With --num-best above 1 or --scores a third column has the score. Tabs and line ends within texts become spaces in
    TSV; jsonl has everything exactly.

    An input that cannot be handled as it is does not stop the others: its warning goes to stderr.
    """
    if text and input is not None:
        raise RegardError("Give texts or --input, not both.")
    if alignments and format != "jsonl":
        raise RegardError("TSV has no room for weights: use --alignments with --format jsonl.")
    source = input or STDIN
    if output is not None and output.exists() and source.exists() and output.samefile(source):
        raise RegardError(f"{output}: --output would overwrite --input.")
    loaded = options.load(model, device)
    given = options.search(
        beam=beam,
        num_best=num_best,
        length_penalty=length_penalty,
        alpha=alpha,
        max_length=max_length,
        batch_tokens=batch_tokens,
    )
    scores = scores or (num_best or loaded.config.decoding.num_best) > 1
    terminal = not text and source == STDIN and sys.stdin.isatty()
    if terminal:
        say("One input a line; Ctrl-D ends.")
    inputs: Iterator[str] = iter(text) if text else lines(source)
    origin = "argument " if text else "stdin:" if source == STDIN else f"{source}:"
    number = 0
    with results(output) as stream:
        while chunk := list(islice(inputs, 1 if terminal else CHUNK)):
            for item, found in zip(chunk, loaded.predict(chunk, alignment=alignments, **given), strict=True):
                number += 1
                if found.warnings:
                    _warn(f"{origin}{number}", item, found, strict=strict)
                if format == "jsonl":
                    print(json.dumps(_record(item, found), ensure_ascii=False, allow_nan=False), file=stream)
                else:
                    _print_tsv(item, found, stream, scores=scores)
            stream.flush()


def _warn(place: str, item: str, found: Prediction, *, strict: bool) -> None:
    message = f"{place}: {item[:60]!r}: {'; '.join(found.warnings)}"
    if strict:
        raise DataError(f"{message}\n  Without --strict it is a warning.")
    say(message)


def _print_tsv(item: str, found: Prediction, stream: TextIO, *, scores: bool) -> None:
    for one in (found, *found.alternatives):
        columns = [item, one.text, *([f"{one.score:.4f}"] if scores else [])]
        print("\t".join(column.translate(BLANKS) for column in columns), file=stream)


def _record(item: str, found: Prediction) -> dict[str, Any]:
    return {
        "input": item,
        **_output(found),
        "warnings": list(found.warnings),
        "alternatives": [_output(one) for one in found.alternatives],
    }


def _output(one: Prediction) -> dict[str, Any]:
    record: dict[str, Any] = {
        "text": one.text,
        "tokens": list(one.tokens),
        "score": finite(one.score),
        "log_probability": finite(one.log_probability),
        "stop_reason": one.stop_reason,
    }
    if one.alignment is not None:
        record["source_tokens"] = list(one.source_tokens)
        record["alignment"] = [_rounded(row) for row in one.alignment.tolist()]
    return record


def _rounded(weights: Iterable[float]) -> list[float | None]:
    return [finite(round(weight, DECIMALS)) for weight in weights]


def register(application: typer.Typer) -> None:
    """Adds the verb to the command line."""
    application.command("predict", epilog="Example: regard predict --model g2p-en attention regard")(predict)
