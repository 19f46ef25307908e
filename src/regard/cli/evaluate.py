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
    from regard.tasks.text_to_text.evaluation import Scored


def evaluate(
    model: options.Model,
    file: Annotated[Path | None, typer.Argument(help="Held-out pairs: a TSV or JSONL file.")] = None,
    source_field: options.SourceField = None,
    target_field: Annotated[
        str | None, typer.Option(metavar="N", help="Column or field of the output; default: as in training.")
    ] = None,
    source: Annotated[Path | None, typer.Option(metavar="FILE", help="Instead of pairs: inputs, one per line.")] = None,
    target: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="References of these inputs, one per line; may be repeated."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Further metrics: bleu, chrf; default: both for sentences (units word, sentencepiece).",
        ),
    ] = None,
    bleu_tokenize: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How BLEU splits texts: none, 13a (default), intl, zh, …"),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the metrics as one JSON object.")] = False,
    worst: Annotated[int, typer.Option(min=0, metavar="N", help="Also print the N worst items.")] = 0,
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

    Error rates count symbols (`data.target.units`) that differ from the nearest reference, after the model's
    normalisation; repeated inputs of a file of pairs are one item with several references. sacrebleu computes BLEU and
    chrF of texts; the signature after each score records how.
    """
    pairs, parallel = file is not None, source is not None and bool(target)
    if pairs == parallel or (pairs and (source is not None or target)):
        raise RegardError("Give a file of pairs, or --source FILE --target FILE.")
    fields, output_fields = inputs.parse_fields(source_field), inputs.parse_fields(target_field, "--target-field")
    if not pairs and (fields or output_fields):
        raise RegardError("--source-field and --target-field are for files of pairs; parallel files have no columns.")
    if output_fields is not None and len(output_fields) > 1:
        raise RegardError(f"--target-field {target_field}: give one column; an output cannot have several.")
    metrics = None if metric is None else [name.strip().lower() for name in metric.split(",")]
    if bleu_tokenize is not None and metrics is not None and "bleu" not in metrics:
        raise RegardError("--bleu-tokenize is for BLEU: add --metric bleu.")
    check_output(output, overwrite=overwrite)
    loaded = options.load(model, device)
    search = options.only_given(
        beam=beam,
        length_penalty=length_penalty,
        alpha=alpha,
        max_length=max_length,
        batch_tokens=batch_tokens,
        metrics=["bleu"] if metrics is None and bleu_tokenize is not None else metrics,
        tokenize=bleu_tokenize,
    )
    if file is not None:
        columns = options.only_given(source_field=fields, target_field=output_fields[0] if output_fields else None)
        evaluation = loaded.evaluate(file, **columns, **search)
    else:
        assert source is not None
        evaluation = loaded.evaluate(source, references=target or (), **search)
    for entry in evaluation.scored:
        if entry.prediction.warnings:
            say(f"{entry.item.place}: {'; '.join(entry.prediction.warnings)}")
    worst_entries = evaluation.worst[:worst]
    signatures = {name: score.signature for name, score in evaluation.corpus.items()}
    with results(output) as stream:
        if json_:
            figures = {
                **{name: finite(value) for name, value in evaluation.metrics.items()},
                **({"signatures": signatures} if signatures else {}),
                **({"worst": [_record(entry) for entry in worst_entries]} if worst else {}),
            }
            print(json.dumps(figures, ensure_ascii=False), file=stream)
            return
        print(evaluation, file=stream)
        for entry in worst_entries:
            print(_block(entry), file=stream)


def _record(entry: Scored) -> dict[str, object]:
    return {
        "source": entry.item.source,
        "references": list(entry.item.references),
        "output": entry.prediction.text,
        "errors": entry.errors,
        "length": entry.length,
        "place": entry.item.place,
    }


def _block(entry: Scored) -> str:
    references = "".join(f"\n  reference  {text}" for text in entry.item.references)
    return (
        f"\n{entry.item.place}  {entry.item.source}  ({entry.errors} of {entry.length} symbols)"
        f"\n  output     {entry.prediction.text}{references}"
    )
