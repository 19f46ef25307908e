"""Converts a model of another program into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regard.config.spelling import suggestion
from regard.errors import ConfigError, DataError, Option, RegardError, UnsupportedError
from regard.files import checksum, create_folder, require_replaceable
from regard.interop.contract import AbstractKind, Converted, Origin
from regard.interop.joeynmt.converter import JoeyNMT
from regard.interop.marian import Marian
from regard.interop.nvidia import Nvidia
from regard.interop.opennmt.converter import OpenNMT
from regard.interop.opennmt.eole import Eole
from regard.interop.tfa.converter import TensorFlowAddons
from regard.interop.torch_transformer import TorchTransformer
from regard.runs import store

DEBUG = Option("\n  --debug shows where reading ended.", "")
KINDS: Mapping[str, AbstractKind] = {
    "eole": Eole(),
    "opennmt": OpenNMT(),
    "tfa": TensorFlowAddons(),
    "joeynmt": JoeyNMT(),
    "marian": Marian(),
    "torch": TorchTransformer(),
    "nvidia": Nvidia(),
}
"""The kinds by the names that `regard convert` takes."""


def kind_of(name: str) -> AbstractKind:
    """The kind of this name."""
    if name not in KINDS:
        raise ConfigError(f"there is no kind {name!r}; {suggestion(name, KINDS)}")
    return KINDS[name]


def convert(
    kind: str,
    path: Path | str,
    output: Path | str,
    *,
    files: Mapping[str, Path] = MappingProxyType({}),
    facts: Mapping[str, Any] = MappingProxyType({}),
    overwrite: bool = False,
) -> Converted:
    """Reads a model of another program and writes it as a folder for `load` and `regard predict`.

    The folder appears whole or not at all. Its card names the files that it was made from.

    Args:
        kind: the program, one of `KINDS`.
        path: the file or folder of the model.
        files, facts: as in `Origin`.
        overwrite: whether the folder of another model is replaced.

    Returns:
        The model, and notes about differences.

    Raises:
        ConfigError: for an unknown kind, file or fact.
        RegardError: for an output that exists, unless it may be overwritten and is a saved model.
        DataError, UnsupportedError: as in `AbstractKind.read`.
    """
    reader, path, output = kind_of(kind), Path(path), Path(output)
    origin = Origin(path, dict(files), dict(facts))
    reader.check(origin)
    require_replaceable(output, partial(_files_of_model, output), kind="a saved model", overwrite=overwrite)
    converted = _read(reader, origin, kind)
    model = converted.model
    model.name = output.name
    notes = "\n".join(f"- {note}" for note in converted.notes)
    model.card = "\n\n".join(filter(None, [f"# {output.name}", _origin_of(kind, origin), notes, model.card]))
    create_folder(output, lambda partial: store.save(model, partial))
    return converted


def _read(reader: AbstractKind, origin: Origin, kind: str) -> Converted:
    """The model. Errors of other kinds, from options and weights of unexpected types and shapes, become `DataError`.

    Raises:
        DataError, UnsupportedError: as in `AbstractKind.read`.
    """
    try:
        return reader.read(origin)
    except (DataError, UnsupportedError) as error:
        if origin.path.name in str(error):
            raise
        raise type(error)(f"{origin.path}: {error}") from error
    except RegardError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError, ZeroDivisionError) as error:
        raise DataError(
            f"{origin.path}: not a model as {kind} saves it, or damaged ({type(error).__name__}: {error}).{DEBUG}"
        ) from error


def _files_of_model(folder: Path) -> set[str]:
    return store.file_names(folder) if (folder / store.WEIGHTS).exists() else set()


def _origin_of(kind: str, origin: Origin) -> str:
    """The files and facts that a model was made from, for its card."""
    lines = [f"Converted from a model of {kind}, `{origin.path.name}`{_digest(origin.path)}."]
    lines += [f"Further file `{name}`: `{path.name}`{_digest(path)}." for name, path in origin.files.items()]
    lines += [f"Given fact: `{name}` is {value!r}." for name, value in origin.facts.items()]
    return "\n".join(lines)


def _digest(path: Path) -> str:
    return f" (SHA-256 {checksum(path)})" if path.is_file() else ""
