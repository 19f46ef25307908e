"""`regard convert`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.standard import say
from regard.errors import ConfigError


def convert(
    kind: Annotated[str, typer.Argument(help="The program, such as opennmt; a wrong name lists all.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file or folder of its model.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder of the new model.")],
    file: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="NAME=FILE", help="A further file of the model; may be given again."),
    ] = None,
    fact: Annotated[
        list[str] | None, typer.Option("--fact", metavar="NAME=VALUE", help="What no file says; may be given again.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in the folder.")] = False,
) -> None:
    """Turn a model of another program into a folder that `predict` takes.

    Weights, vocabularies and options are read; nothing in the files is run.
    """
    import yaml

    from regard.conversion import convert as run

    files = {name: Path(value) for name, value in _pairs("--file", file).items()}
    facts: dict[str, Any] = {}
    for name, value in _pairs("--fact", fact).items():
        try:
            facts[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ConfigError(f"--fact {name}: {value!r} is not a value of YAML.") from None
    converted = run(kind, path, output, files=files, facts=facts, overwrite=overwrite)
    for note in converted.notes:
        say(f"note: {note}")
    say(f"{output}: {converted.model.num_parameters:,} parameters. Use it: regard predict --model {output} TEXT")


def _pairs(flag: str, given: list[str] | None) -> dict[str, str]:
    """The values of a flag that may be given several times, by name."""
    pairs: dict[str, str] = {}
    for text in given or ():
        name, found, value = text.partition("=")
        if not found or not name:
            raise ConfigError(f"{flag} {text}: expected NAME=VALUE.")
        if name in pairs:
            raise ConfigError(f"{flag} {name} is given twice.")
        pairs[name] = value
    return pairs
