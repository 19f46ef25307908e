"""Reads saved models: run folders, and the models that come with the package."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from regard import weights as files
from regard.config import Config, differences
from regard.config import load as load_configuration
from regard.config.keys import keys
from regard.config.place import KeyPath
from regard.config.schema import is_set
from regard.config.spelling import did_you_mean, nearest
from regard.errors import ConfigError, DataError, RegardError
from regard.files import checksum
from regard.runs.contract import AbstractModel
from regard.runs.fingerprints import DAMAGED
from regard.runs.store import CARD, WEIGHTS, load_fingerprints, tied
from regard.runs.table import task_of
from regard.runs.trained_items import ITEMS, TrainedItems
from regard.training.device import choose as choose_device
from regard.training.manifest import REPLACED

LAST_KEY = "select"
"""Without it, a saved configuration was cut off."""


def load(name_or_folder: str | Path, *, device: str | torch.device = "auto") -> Any:
    """A model that comes with regard, such as "g2p-en", or the best model of a run folder.

    Args:
        name_or_folder: a shipped model's name (`regard list models`) or a folder.
        device: "auto" takes a GPU if there is one.

    Raises:
        RegardError: if there is no such model; the text names the existing ones.
        DataError: for files that are missing, damaged or of a newer format, or that do not belong together.
    """
    folder = find(name_or_folder)
    saved, header = files.read(folder / WEIGHTS)
    config = _configuration(folder, header)
    _check_files(folder, header)
    model = _restored(config, folder)
    if (name := next((name for name, tensor in saved.items() if not bool(tensor.isfinite().all())), None)) is not None:
        raise DataError(
            f"{folder / WEIGHTS}: {name} has numbers that are not finite (NaN or infinite), so that the model would "
            f"predict nothing. {DAMAGED}"
        )
    weights = {name: tensor.float() if tensor.dtype == torch.float16 else tensor for name, tensor in saved.items()}
    expected = {name: tensor.shape for name, tensor in model.module.state_dict().items() if name not in tied(model)}
    shapes = {name: tensor.shape for name, tensor in weights.items()}
    if shapes != expected:
        wrong = [name for name in {**expected, **shapes} if expected.get(name) != shapes.get(name)]
        lines = [f"  {name}: expected {_shape(expected.get(name))}, got {_shape(shapes.get(name))}" for name in wrong]
        raise DataError(f"{folder / WEIGHTS} does not belong to {folder / 'config.yaml'}:\n" + "\n".join(sorted(lines)))
    model.module.load_state_dict(weights, strict=False)
    model.fingerprints = load_fingerprints(folder)
    if ITEMS in header.get("files", {}):
        model.trained_items = TrainedItems.load(folder / ITEMS)
    if (folder / CARD).exists():
        model.card = (folder / CARD).read_text(encoding="utf-8")
    model.module.to(choose_device(str(device)))
    return model


def shipped() -> dict[str, Path]:
    """The models inside the package: name and folder."""
    root = Path(str(resources.files("regard") / "pretrained"))
    return {path.parent.name: path.parent for path in sorted(root.glob(f"*/{WEIGHTS}"))}


def _restored(config: Config, folder: Path) -> AbstractModel[Any]:
    """The model of a folder whose checksums are right, without its weights. Values of other types and sizes than regard
    writes fail in as many ways as there are places that read them; they all end in one kind of error.
    """
    try:
        return task_of(config).restore(config, folder, name=folder.name)
    except RegardError:
        raise
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(
            f"{folder}: its files do not belong together, or hold what regard does not write ({type(error).__name__}: "
            f"{error!s:.200}).\n  {DAMAGED}"
        ) from error


def _shape(shape: torch.Size | None) -> str:
    return "none" if shape is None else str(tuple(shape))


def _configuration(folder: Path, header: dict[str, Any]) -> Config:
    """The configuration beside the weights, which must be the one that the weights were saved with."""
    path = folder / "config.yaml"
    try:
        config = load_configuration(path).config
    except ConfigError as error:
        raise DataError(f"{error}\n  This is the configuration of the model {folder}. {DAMAGED}") from None
    if not is_set(config, (LAST_KEY,)):
        raise DataError(f"{path}: there is no key {LAST_KEY!r}, the last of a saved configuration. {DAMAGED}")
    try:
        section = keys(type(config))["model",].section_for(header["model"])
        assert section is not None
        built = config.model_copy(update={"model": section(**header["model"])})
    except (KeyError, TypeError, ValidationError):  # format 1, or a model section of another version
        return config
    if changed := differences(built, config):
        lines = [f"  {key}: saved with {was!r}, now {now!r}" for key, was, now in changed]
        raise DataError(f"{path} is not the configuration that the weights were saved with:\n" + "\n".join(lines))
    return config


def _check_files(folder: Path, header: dict[str, Any]) -> None:
    """Refuses files other than those that were saved with the weights."""
    for name, expected in header.get("files", {}).items():
        path = folder / name
        if not path.is_file():
            raise DataError(f"{path}: the file is missing. {DAMAGED}")
        if checksum(path) != expected:
            raise DataError(f"{path}: the file is not the one that was saved: its checksum is wrong.\n  {DAMAGED}")


def find(name_or_folder: str | Path) -> Path:
    """The folder of a saved model."""
    folder = Path(name_or_folder)
    for candidate in (folder, folder / "best"):
        if (candidate / WEIGHTS).exists():
            return candidate
    models = shipped()
    if str(name_or_folder) in models:
        return models[str(name_or_folder)]
    names = ", ".join(models) or "none"
    if (folder / REPLACED / WEIGHTS).exists():
        reason = (
            f"{folder} has no model yet: its training began anew and has not reached a validation. The former model is "
            f"{folder / REPLACED}."
        )
    elif folder.is_dir():
        reason = f"{folder} has no {WEIGHTS}. Is it a run folder whose training has reached a validation?"
    else:
        similar = _similar(folder, models)
        hint = f"; {did_you_mean(similar)}" if similar else "."
        reason = f"There is no folder and no shipped model {str(name_or_folder)!r}{hint}"
    raise RegardError(f"{reason} Shipped models: {names}.")


def find_named(path: Path, key: KeyPath) -> Path:
    """The folder of the model that a key of a configuration names: a folder, or a shipped model's name."""
    try:
        return find(path if path.is_dir() else path.name)
    except RegardError as error:
        raise ConfigError(f"{path} is not a saved model. {error}", key) from None


def load_of_task(folder: Path, key: KeyPath, *, task: str, device: torch.device | str) -> Any:
    """The model of a folder that a key of a configuration names, which must be of this task."""
    model = load(folder, device=device)
    if model.config.task != task:
        raise ConfigError(f"{folder} is a model of another task, {model.config.task}", key)
    return model


def _similar(folder: Path, models: Iterable[str]) -> str | None:
    """The nearest name of a run folder beside it, or of a shipped model."""
    beside: list[str] = []
    with suppress(OSError):
        beside = [other.name for other in folder.parent.iterdir() if (other / WEIGHTS).exists()]
    if (name := nearest(folder.name, beside)) is not None:
        return str(folder.with_name(name))
    return nearest(str(folder), models)
