"""`regard distill`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.inputs import file_or_parallel
from regard.cli.train import configuration, ended, with_shortcuts
from regard.errors import ConfigError


def distill(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="TEACHER... [FILE]",
            help="The teachers: run folders, or names of shipped models; then a file like their training data.",
        ),
    ],
    source: options.Source = None,
    target: options.Target = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The run folder; default: runs/ and the name of the file.")
    ] = None,
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="FILE", help="Held-out data; default: a part of FILE.")
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="FILE", help="Further inputs, one per line, whose outputs teachers predict."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="YAML", help="The student's configuration; default: the first teacher's."),
    ] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="A preset instead: `regard list presets`.")] = None,
    reranker: Annotated[
        Path | None,
        typer.Option("--reranker", metavar="MODEL", help="A model that ranks the teachers' hypotheses."),
    ] = None,
    relabel: Annotated[
        bool, typer.Option("--relabel/--no-relabel", help="Whether the teachers predict the inputs of FILE, too.")
    ] = True,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set any key of the student; may be repeated."),
    ] = None,
    overwrite: options.BeginAnew = False,
    device: options.TrainingDevice = None,
    seed: options.Seed = None,
) -> None:
    """Train one model on what several say.

    At every symbol the student learns the mean of the probabilities of its teachers, and it learns what they predict
    together. The same command continues a run that was stopped.
    """
    overrides = with_shortcuts(set_ or [], {"training.device": device, "seed": seed})
    if source is None and len(words) < 2:
        raise ConfigError("Give one teacher or more, and then FILE.")
    teachers, last = (words, None) if source is not None else (words[:-1], Path(words[-1]))
    path = file_or_parallel(last, source, target)
    data = path if target is None else {"source": path, "target": target}
    student = None
    if config is not None or preset is not None:
        student = configuration(config, preset, ["data.train=data"])

    from regard.runs.distillation import distill as run

    outcome = run(
        teachers,
        data,
        output or Path("runs") / f"{path.stem}-student",
        dev=dev,
        inputs=inputs,
        student=student,
        relabel=relabel,
        search={} if reranker is None else {"reranker": reranker},
        overrides=overrides,
        overwrite=overwrite,
    )
    raise ended(outcome.signal)
