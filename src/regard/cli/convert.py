"""`regard convert`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.standard import format_of_output, say
from regard.errors import ConfigError


def convert(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The program that the model is of; see the list above.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file or folder of the model; see the list above.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder of the new model.")],
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", metavar="NAME=FILE", help="A further file of the model, as listed above; may be given again."
        ),
    ] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option("--fact", metavar="NAME=VALUE", help="What no file says, as listed above; may be given again."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in the folder.")] = False,
) -> None:
    """Turn a model of another program into a folder that `predict` takes.

    Weights, vocabularies and options are read; nothing in the files is run. KIND, what FILE is, and what may be added:

    \b
    eole     a model folder of eole 0.6
    opennmt  a checkpoint (.pt) of OpenNMT-py 3
    tfa      an .npz of arrays of tensorflow-addons' seq2seq, with
             model.json or model.yaml beside it (or --file facts=FILE)
    joeynmt  a model folder of Joey NMT 2
             --file checkpoint=FILE, source_pieces=FILE, target_pieces=FILE
             --fact prepared=true
    marian   a folder of transformers' save_pretrained
    torch    a YAML file of facts about a model around
             torch.nn.Transformer, which names its state dict
    nvidia   a checkpoint of NVIDIA/tacotron2
             --file symbols=FILE
             --fact case=lower, gate_threshold=0.5
    \f
    """
    import yaml

    from regard.interop import convert as run

    format_of_output(output, {}, "folder")
    files = {name: Path(value) for name, value in _pairs("--file", file).items()}
    for each in (path, *files.values()):
        if each.exists() and not (each.is_file() or each.is_dir()):
            raise ConfigError(f"{each} is a pipe or a device; a model is read from a file or a folder.")
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


def _pairs(flag: str, texts: list[str] | None) -> dict[str, str]:
    """The values of a repeated flag NAME=VALUE, by name."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag} {text}: expected NAME=VALUE.")
        if name in pairs:
            raise ConfigError(f"{flag} {name} is given twice.")
        pairs[name] = value
    return pairs
