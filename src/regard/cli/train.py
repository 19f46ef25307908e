"""`regard train`"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import options
from regard.cli.standard import OTHER_SUFFIXES
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config import Configuration

DATA_SUFFIXES = OTHER_SUFFIXES - {".yaml", ".yml", ".json"} | {".txt"}
"""The suffixes of files that are data, and no configurations."""
KILLED = 128
"""Added to the number of the signal that stopped a training, which has been saved and can be continued."""


def train(
    config: Annotated[Path | None, typer.Argument(metavar="CONFIG.yaml", help="The configuration.")] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="A preset instead of a file: `regard list presets`.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set any key, e.g. training.epochs=10; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The run folder; default: runs/ and the configuration's name."),
    ] = None,
    overwrite: options.BeginAnew = False,
    device: options.TrainingDevice = None,
    precision: Annotated[
        str | None, typer.Option("--precision", metavar="TYPE", help="Same as --set training.precision=…")
    ] = None,
    seed: options.Seed = None,
) -> None:
    """Train a model, or continue its training.

    The same command continues a run that was stopped, and so does the config.yaml of the run folder.
    """
    shortcuts = {"training.device": device, "training.precision": precision, "seed": seed}
    given = configuration(config, preset, with_shortcuts(set_ or [], shortcuts))

    from regard import tasks

    run = tasks.train(given, output, overwrite=overwrite)
    raise ended(run.signal)


def ended(signal: int | None) -> typer.Exit:
    """The end of the program after a training that has ended, or was stopped by a signal."""
    return typer.Exit(0 if signal is None else KILLED + signal)


def with_shortcuts(overrides: list[str], shortcuts: Mapping[str, object]) -> list[str]:
    """The overrides of `--set`, with those of flags that are short for one.

    Args:
        shortcuts: by key, the value of its flag, or None.
    """
    given = {key: value for key, value in shortcuts.items() if value is not None}
    for key in {text.partition("=")[0].strip() for text in overrides} & set(given):
        flag = f"--{key.rpartition('.')[2]}"
        raise ConfigError(f"{flag} {given[key]} and --set {key}=… set the same key; leave out one of them.")
    return [*overrides, *(f"{key}={value}" for key, value in given.items())]


def configuration(config: Path | None, preset: str | None, overrides: list[str]) -> Configuration:
    """The configuration of a file or of a preset."""
    from regard.config import from_preset, load, presets

    if config is not None and config.suffix.lower() in DATA_SUFFIXES:
        chosen = f"--preset {preset or 'NAME'} --set {quote(f'data.train={config}')}"
        raise ConfigError(f"{config} is no configuration (.yaml). The name of a file of data is a key: {chosen}")
    if config is not None and preset is not None:
        raise ConfigError(
            f"Give a configuration file ({config}) or --preset, not both; --set changes keys of either. A value with "
            "blanks needs quotes: --set 'model.attention={recipe: luong}'."
        )
    if config is not None:
        return load(config, overrides)
    if preset is None:
        raise ConfigError(f"Give a configuration file, or --preset with one of {', '.join(presets())}.")
    return from_preset(preset, overrides)
