"""`regard evaluate`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import options
from regard.cli.standard import finite, results, say

if TYPE_CHECKING:
    from regard.tasks.evaluation import Scored


def evaluate(
    file: Annotated[Path, typer.Argument(help="Held-out pairs, in the format of the training data.")],
    model: options.Model,
    json_: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")] = False,
    worst: Annotated[int, typer.Option(min=0, metavar="N", help="Also list the N worst items.")] = 0,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    alpha: options.Alpha = None,
    max_length: options.MaxLength = None,
    batch_tokens: options.BatchTokens = None,
    output: options.Output = None,
    device: options.Device = "auto",
) -> None:
    """Compare a model's outputs with the references of a file."""
    evaluation = options.load(model, device).evaluate(
        file,
        **options.search(
            beam=beam,
            length_penalty=length_penalty,
            alpha=alpha,
            max_length=max_length,
            batch_tokens=batch_tokens,
        ),
    )
    warned = [one for one in evaluation.scored if one.prediction.warnings]
    for one in warned:
        say(f"{one.item.place}: {'; '.join(one.prediction.warnings)}")
    chosen = evaluation.worst[:worst]
    with results(output) as stream:
        if json_:
            figures = {
                **{name: finite(value) for name, value in evaluation.metrics.items()},
                **({"worst": [_record(one) for one in chosen]} if worst else {}),
            }
            print(json.dumps(figures, ensure_ascii=False), file=stream)
            return
        print(evaluation, file=stream)
        for one in chosen:
            print(_block(one), file=stream)


def _record(one: Scored) -> dict[str, object]:
    return {
        "source": one.item.source,
        "references": list(one.item.references),
        "output": one.prediction.text,
        "errors": one.errors,
        "length": one.length,
        "place": one.item.place,
    }


def _block(one: Scored) -> str:
    references = "".join(f"\n  reference  {text}" for text in one.item.references)
    return (
        f"\n{one.item.place}  {one.item.source}  ({one.errors} of {one.length} symbols)"
        f"\n  output     {one.prediction.text}{references}"
    )


def register(application: typer.Typer) -> None:
    """Adds the verb to the command line."""
    application.command("evaluate", epilog="Example: regard evaluate --model runs/g2p test.tsv --worst 10")(evaluate)
