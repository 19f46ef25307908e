"""`regard evaluate`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import inputs, options
from regard.cli.progress import ProgressLine
from regard.cli.standard import check_output, format_of_output, results, say
from regard.errors import RegardError
from regard.files import plain

if TYPE_CHECKING:
    from regard.runs.contract import AbstractModel


def evaluate(
    context: typer.Context,
    model: options.Model,
    file: Annotated[Path | None, typer.Argument(help="A file of held-out items, as in training.")] = None,
    source_field: options.SourceField = None,
    target_field: options.TargetField = None,
    source: options.Source = None,
    target: Annotated[
        list[Path] | None,
        typer.Option("--target", metavar="FILE", help="References of these inputs, one per line; may be repeated."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME,NAME",
            help="Further metrics: bleu, chrf; default: both for sentences (units word, sentencepiece).",
        ),
    ] = None,
    bleu_tokenize: Annotated[
        str | None,
        typer.Option("--bleu-tokenize", metavar="NAME", help="How BLEU splits texts: none, 13a (default), intl, zh, …"),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option("--table", metavar="FILE", help="Of speech: also write a table with the figures of every item."),
    ] = None,
    joined: Annotated[
        int | None,
        typer.Option(
            "--joined",
            metavar="N",
            help="Of speech: how many sentences are joined to a long one; default: 5, and 0 is none.",
        ),
    ] = None,
    boxes: Annotated[
        Path | None,
        typer.Option(
            "--boxes", metavar="FILE", help="Of pictures: boxes of what words name; also prints figures of the maps."
        ),
    ] = None,
    vocoder: options.Vocoder = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Also write every item, by suffix: .csv, .jsonl or .parquet, or a page (.html) of what goes wrong.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Fit the confidences of the model to this file, and keep that in its folder."),
    ] = False,
    normaliser: options.Normaliser = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the metrics as one JSON object.")] = False,
    worst: Annotated[int, typer.Option("--worst", min=0, metavar="N", help="Also print the N worst items.")] = 0,
    output: options.Output = None,
    overwrite: options.Overwrite = False,
    device: options.Device = "auto",
) -> None:
    """Compare a model's predictions with what a file has.

    Of texts, error rates count symbols (`data.target.units`) that differ from the nearest reference, after the model's
    normalisation; repeated inputs of a file of pairs are one item with several references. sacrebleu computes BLEU and
    chrF of texts; the signature after each score records how.

    --report FILE.html shows what goes wrong: confusions, errors by length and rarity, reliability, and the worst items.
    --calibrate is for held-out data: it fits the temperature of confidences (docs/confidence.md) of a model that was
    trained without it.

    Speech is compared with recordings: alignments with labels, if there are any, and with a baseline without
    attention; errors of reading, also of joined sentences; distortion, pitch and durations.
    """
    path, fields, output_field = inputs.of_pairs(file, source, target, source_field, target_field)
    metrics = None if metric is None else [name.strip().lower() for name in metric.split(",")]
    if bleu_tokenize is not None and metrics is not None and "bleu" not in metrics:
        raise RegardError("--bleu-tokenize is for BLEU: add --metric bleu.")
    read = [file, source, *(target or ()), boxes]
    check_output(output, overwrite=overwrite, inputs=read)
    check_output(table, overwrite=overwrite, inputs=read)
    if report is not None:
        from regard.runs.report import check_report, write_report

        check_report(report)
        check_output(report, overwrite=overwrite, inputs=read)
    as_json = format_of_output(output, {".json": "json", ".txt": "text"}, "text", "json" if json_ else None) == "json"
    loaded = options.load(model, device, options.settings(context), normaliser=normaliser)
    flags = {
        "--source-field": ("source_field", fields),
        "--target-field": ("target_field", output_field),
        "--target": ("references", target or None),
        "--metric": ("metrics", metrics),
        "--bleu-tokenize": ("tokenize", bleu_tokenize),
        "--table": ("table", table),
        "--joined": ("joined", joined),
        "--boxes": ("boxes", boxes),
        "--vocoder": ("vocoder", vocoder),
    }
    if calibrate:
        folder = _calibrated_folder(loaded, model, overwrite=overwrite)
    from regard.data.tally import summary
    from regard.runs.calibration import reliability_of
    from regard.runs.observation import observing

    shares = [0.0]
    with ProgressLine(lambda: shares[-1]) as progress:

        def observe(count: int, share: float) -> None:
            shares[-1] = share
            progress.advance(count)

        with observing(observe):
            evaluation = loaded.evaluate(path, **options.accepted(loaded, "evaluate", flags))
    if (seen := loaded.seen(evaluation, path)) is not None and str(seen):
        say(f"warning: {path}: {seen}")
    for line in summary((entry.place, entry.prediction.warnings) for entry in evaluation.scored):
        say(f"warning: {line}")
    for warning in evaluation.warnings:
        say(f"warning: {warning}")
    if report is not None:
        say(str(write_report(loaded, evaluation, report, data=str(path))))
    if calibrate:  # after the report, which has the confidences before
        from regard.runs.store import save_calibration

        loaded.calibration = loaded.calibrate(evaluation)
        save_calibration(loaded, folder)
        say(f"{folder}: confidences are calibrated: {loaded.calibration}")
    worst_entries = evaluation.worst[:worst]
    curve = reliability_of(evaluation.scored)
    with results(output) as stream:
        if as_json:
            figures = {
                **evaluation.metrics,
                **evaluation.details,
                **({} if curve is None else {"calibration_error": curve.error}),
                **({} if seen is None else {"trained_items": len(seen.items), "trained_inputs": len(seen.inputs)}),
                **({"warnings": list(evaluation.warnings)} if evaluation.warnings else {}),
                **({"worst": [entry.record() for entry in worst_entries]} if worst else {}),
            }
            print(json.dumps(plain(figures), ensure_ascii=False), file=stream)
            return
        print(evaluation, file=stream)
        if curve is not None and not calibrate:
            note = "" if loaded.is_calibrated else "; the model is not calibrated (--calibrate)"
            print(f"calibration error of confidences {curve.error:.4f}{note}", file=stream)
        for entry in worst_entries:
            print(f"\n{entry}", file=stream)


def _calibrated_folder(model: AbstractModel[Any], name: str, *, overwrite: bool) -> Path:
    """The folder of a model that is to be calibrated.

    Raises:
        RegardError: for a model without confidences, one that is calibrated, or one that cannot be.
    """
    from regard.runs.store import find, shipped

    folder = find(name)
    if model.no_confidence:
        raise RegardError(f"--calibrate is not for models of {model.config.task}: {model.no_confidence}.")
    if folder in shipped().values():
        raise RegardError(f"--calibrate: {name} comes with regard and stays as it is; save a copy of it (regard.save).")
    if model.calibration is not None and not model.is_calibrated:
        raise RegardError("--calibrate is for one model; leave out --ensemble.")
    if model.calibration is not None and not overwrite:
        raise RegardError(f"{folder} is calibrated ({model.calibration}); --overwrite calibrates it again.")
    return folder
