"""`regard sweep`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.standard import show
from regard.cli.train import configuration, ended, with_shortcuts


def sweep(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG.yaml", help="The configuration, with ranges.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="A preset instead of a file: `regard list presets`.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set any key, e.g. sweep.trials=30 or a range; may be repeated."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder; default: sweeps/ and the configuration's name."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew: remove the sweep in the folder, after all checks.")
    ] = False,
    device: options.TrainingDevice = None,
    on: options.On = None,
    workers: options.NumWorkers = None,
) -> None:
    """Search for the best settings with many trainings.

    Needs Optuna. The values are drawn from ranges in the configuration, in the section sweep. The first training has
    the configuration as it is. Trainings that fall behind are stopped. The best model is in the
    folder best/. The same command continues a sweep that was stopped.

    With --on ray several trainings run at a time on a Ray cluster whose machines share the file system.
    """
    options.check_on(on, workers)
    given = configuration(config, preset, with_shortcuts(set_ or [], {"training.device": device}))

    from regard import tasks

    result = tasks.sweep(given, output, overwrite=overwrite, on=on, num_workers=workers)
    if result.trials:
        show(result)
    raise ended(result.signal)
