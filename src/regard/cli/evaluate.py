"""`regard evaluate`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import inputs, options
from regard.cli.standard import check_output, finite, results, say
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.evaluation import Scored


def evaluate(
    model: options.Model,
    file: Annotated[Path | None, typer.Argument(help="Held-out pairs: a TSV or JSONL file.")] = None,
    source_field: options.SourceField = None,
    target_field: Annotated[
        str | None, typer.Option(metavar="N", help="Column or field of the output; as in training if not given.")
    ] = None,
    source: Annotated[Path | None, typer.Option(metavar="FILE", help="Instead of pairs: inputs, one a line.")] = None,
    target: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Their references, one a line; again for further references."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Further figures: bleu, chrf; both for sentences (units word, sentencepiece) if not given.",
        ),
    ] = None,
    bleu_tokenize: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How BLEU cuts texts: none, 13a (the default), intl, zh, …"),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")] = False,
    worst: Annotated[int, typer.Option(min=0, metavar="N", help="Also list the N worst items.")] = 0,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    alpha: options.Alpha = None,
    max_length: options.MaxLength = None,
    batch_tokens: options.BatchTokens = None,
    output: options.Output = None,
    overwrite: options.Overwrite = False,
    device: options.Device = "auto",
) -> None:
    """Compare a model's outputs with the references of a file.

    The rates compare symbols (`data.target.units`), after the model's normalisation, with the nearest reference;
    repeated inputs of a file of pairs are one item with several references. BLEU and chrF are sacrebleu's, of texts;
    the signature behind each says how it was computed.
    """
    pairs, parallel = file is not None, source is not None and bool(target)
    if pairs == parallel or (pairs and (source is not None or target)):
        raise RegardError("Give a file of pairs, or --source FILE --target FILE.")
    fields, output_fields = inputs.parse_fields(source_field), inputs.parse_fields(target_field, "--target-field")
    if not pairs and (fields or output_fields):
        raise RegardError(
            "--source-field and --target-field name columns of a file of pairs; parallel files have none."
        )
    if output_fields is not None and len(output_fields) > 1:
        raise RegardError(f"--target-field {target_field}: an output is in one column.")
    metrics = None if metric is None else [name.strip().lower() for name in metric.split(",")]
    if bleu_tokenize is not None and metrics is not None and "bleu" not in metrics:
        raise RegardError("--bleu-tokenize is for BLEU: add --metric bleu.")
    check_output(output, overwrite=overwrite)
    loaded = options.load(model, device)
    given = options.only_given(
        beam=beam,
        length_penalty=length_penalty,
        alpha=alpha,
        max_length=max_length,
        batch_tokens=batch_tokens,
        metrics=["bleu"] if metrics is None and bleu_tokenize is not None else metrics,
        tokenize=bleu_tokenize,
    )
    if file is not None:
        named = options.only_given(source_field=fields, target_field=output_fields[0] if output_fields else None)
        evaluation = loaded.evaluate(file, **named, **given)
    else:
        assert source is not None
        evaluation = loaded.evaluate_parallel(source, target or (), **given)
    warned = [one for one in evaluation.scored if one.prediction.warnings]
    for one in warned:
        say(f"{one.item.place}: {'; '.join(one.prediction.warnings)}")
    chosen = evaluation.worst[:worst]
    signatures = {name: figure.signature for name, figure in evaluation.corpus.items()}
    with results(output) as stream:
        if json_:
            figures = {
                **{name: finite(value) for name, value in evaluation.metrics.items()},
                **({"signatures": signatures} if signatures else {}),
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
