"""`regard adapt`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.inputs import file_or_parallel
from regard.cli.train import ended, with_shortcuts


def adapt(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run folder, or the name of a shipped model.")],
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="New data, in a form in which the model was trained.")
    ] = None,
    source: options.Source = None,
    target: options.Target = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The run folder; default: runs/ and the names of model and file."),
    ] = None,
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="FILE", help="Held-out new data; default: a part of FILE.")
    ] = None,
    former: Annotated[
        Path | None,
        typer.Option("--former", metavar="FILE", help="The former training data, if they are in another place now."),
    ] = None,
    replay: Annotated[
        float | None,
        typer.Option("--replay", min=0, metavar="N", help="Former items for each new one; default: 8, and 0 is none."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set any key, e.g. training.epochs=3; may be repeated."),
    ] = None,
    overwrite: options.BeginAnew = False,
    device: options.TrainingDevice = None,
    seed: options.Seed = None,
) -> None:
    """Train a model further on new data, keeping what it knows.

    Symbols, labels and scales of the model are kept and extended, and some of its former data are trained on again. The
    figures on new and former held-out data, before and after, are printed at the end. The same command continues an
    adaptation that was stopped.
    """
    shortcuts = {"training.device": device, "seed": seed}
    overrides = with_shortcuts(set_ or [], shortcuts)
    path = file_or_parallel(file, source, target)
    folder = output or Path("runs") / f"{Path(model).absolute().name}-{path.stem}"
    data = path if target is None else {"source": path, "target": target}

    from regard.runs.adaptation import REPLAY
    from regard.runs.adaptation import adapt as run

    number = REPLAY if replay is None else replay
    outcome = run(model, data, folder, dev=dev, replay=number, former=former, overrides=overrides, overwrite=overwrite)
    raise ended(outcome.signal)
