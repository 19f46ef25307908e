"""Saved models: folders with weights, configuration and further files of the model, and no code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from regard import weights as files
from regard.config import Config, differences
from regard.config import load as load_configuration
from regard.config import save as save_configuration
from regard.config.keys import keys
from regard.config.place import KeyPath
from regard.config.schema import is_set
from regard.config.spelling import did_you_mean, nearest
from regard.errors import ConfigError, DataError, RegardError
from regard.files import checksum, create_folder, require_replaceable
from regard.runs.calibration import CALIBRATION, Calibration
from regard.runs.contract import AbstractModel, task_of
from regard.runs.fingerprints import DAMAGED
from regard.runs.trained_items import ITEMS, TrainedItems
from regard.training.device import choose as choose_device
from regard.training.manifest import REPLACED, Manifest, is_run

WEIGHTS = "model.safetensors"
CONFIGURATION = "config.yaml"
CARD = "card.md"
FINGERPRINTS = "data.json"
LAST_KEY = "select"
"""The last key of a saved configuration; a file without it was cut off."""


def save(model: AbstractModel[Any], folder: Path | str, *, half: bool = False) -> None:
    """Writes `model.safetensors`, `config.yaml`, the model's assets, such as vocabularies, `data.json` (fingerprints of
    the training files) and, if the model has them, its `card.md` and its `calibration.json`.

    The header of `model.safetensors` has the format's version, checksums of the weights and of the other files, and
    the section `model` of the configuration, so that `load` refuses files that do not belong together.

    Args:
        folder: created if necessary; files of the same names are replaced.
        half: stores weights in float16, half the size; `load` turns them into float32.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.module.state_dict().items()}
    for name in tied(model):
        del weights[name]
    if half:
        weights = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    save_configuration(model.config, folder / CONFIGURATION)
    model.save_assets(folder)
    save_fingerprints(model, folder)
    if model.card:
        (folder / CARD).write_text(model.card, encoding="utf-8")
    if model.trained_items is not None:
        model.trained_items.save(folder / ITEMS)
    else:
        (folder / ITEMS).unlink(missing_ok=True)
    names = [name for name in (*model.assets, FINGERPRINTS, ITEMS) if (folder / name).exists()]
    header = {
        "files": {name: checksum(folder / name) for name in names},
        "model": model.config.model.model_dump(mode="json"),
    }
    digest = files.write(weights, folder / WEIGHTS, extra=header)
    if model.calibration is not None:
        model.calibration.save(folder, digest)
    else:
        (folder / CALIBRATION).unlink(missing_ok=True)


def save_whole(model: AbstractModel[Any], folder: Path, *, overwrite: bool) -> None:
    """Writes a model into a folder of its own, whole or not at all.

    Raises:
        RegardError: for a folder with files, unless `overwrite` and these are of a saved model.
    """
    require_replaceable(folder, lambda: file_names(folder), kind="a saved model", overwrite=overwrite)
    create_folder(folder, lambda partial: save(model, partial))


def file_names(folder: Path) -> set[str]:
    """The names of the files of a saved model in a folder.

    Raises:
        DataError: for a folder without a readable model.
    """
    _, header = files.read(folder / WEIGHTS)
    return {WEIGHTS, CONFIGURATION, CARD, CALIBRATION, *header.get("files", ())}


def save_calibration(model: AbstractModel[Any], folder: Path) -> None:
    """Adds the calibration of a model to its folder."""
    assert model.calibration is not None
    if is_run(folder):
        Manifest(folder).claim([CALIBRATION])  # so that the run may replace it when it is extended
    model.calibration.save(folder, files.read(folder / WEIGHTS)[1].get("sha256", ""))


def save_fingerprints(model: AbstractModel[Any], folder: Path) -> None:
    """Writes the SHA-256 of the files that a model is trained on."""
    (folder / FINGERPRINTS).write_text(json.dumps(model.fingerprints, indent=1) + "\n", encoding="utf-8")


def load_fingerprints(folder: Path) -> dict[str, str]:
    """The SHA-256 of the files that a model was trained on, by name; empty if there is no record."""
    path = folder / FINGERPRINTS
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(stored, dict) or not all(isinstance(value, str) for value in stored.values()):
            raise ValueError("expected an object of texts")
    except ValueError as error:
        raise DataError(f"{path}: not the fingerprints of a model's data ({error}).\n  {DAMAGED}") from None
    return stored


def tied(model: AbstractModel[Any]) -> list[str]:
    """The second names of weights that have several names; such weights are saved once."""
    seen: set[int] = set()
    names = []
    for name, parameter in model.module.named_parameters(remove_duplicate=False):
        if id(parameter) in seen:
            names.append(name)
        seen.add(id(parameter))
    return names


def load(
    name_or_folder: str | Path,
    *,
    device: str | torch.device = "auto",
    normaliser: Callable[[str], str] | None = None,
) -> Any:
    """A model that comes with regard, such as "g2p-en", or the best model of a run folder.

    Args:
        name_or_folder: a shipped model's name (`regard list models`) or a folder.
        device: "auto" takes a GPU if there is one.
        normaliser: of speech: the function of `data.normaliser`, which is not stored with the model.

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
            f"{folder / WEIGHTS}: {name} has numbers that are not finite (NaN or infinite), with which the model "
            f"cannot predict. {DAMAGED}"
        )
    weights = {name: tensor.float() if tensor.dtype == torch.float16 else tensor for name, tensor in saved.items()}
    expected = {name: tensor.shape for name, tensor in model.module.state_dict().items() if name not in tied(model)}
    shapes = {name: tensor.shape for name, tensor in weights.items()}
    if shapes != expected:
        wrong = [name for name in {**expected, **shapes} if expected.get(name) != shapes.get(name)]
        lines = [f"  {name}: expected {_shape(expected.get(name))}, got {_shape(shapes.get(name))}" for name in wrong]
        raise DataError(f"{folder / WEIGHTS} does not belong to {folder / 'config.yaml'}:\n" + "\n".join(sorted(lines)))
    model.module.load_state_dict(weights, strict=False)
    model.folder, model.digest = folder, header.get("sha256") or files.digest(saved)
    model.fingerprints = load_fingerprints(folder)
    model.calibration = Calibration.load(folder, header.get("sha256", ""))
    if ITEMS in header.get("files", {}):
        model.trained_items = TrainedItems.load(folder / ITEMS)
    if (folder / CARD).exists():
        model.card = (folder / CARD).read_text(encoding="utf-8")
    if normaliser is not None:
        model.use_normaliser(normaliser)
    model.module.to(choose_device(str(device)))
    return model


def shipped() -> dict[str, Path]:
    """The models inside the package: name and folder."""
    root = Path(str(resources.files("regard") / "pretrained"))
    return {path.parent.name: path.parent for path in sorted(root.glob(f"*/{WEIGHTS}"))}


def _restored(config: Config, folder: Path) -> AbstractModel[Any]:
    """The model of a folder, without its weights; every error of files with values of other types or sizes than those
    that regard writes becomes a DataError."""
    try:
        return task_of(config).restore(config, folder, name=folder.name)
    except RegardError:
        raise
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(
            f"{folder}: its files do not belong together, or have values that regard does not write "
            f"({type(error).__name__}: {error!s:.200}).\n  {DAMAGED}"
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
    """Raises DataError for files that are missing or differ from those saved with the weights."""
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
            f"{folder} has no model yet: its training began again and has not reached a validation. The former "
            f"model is {folder / REPLACED}."
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
    """The nearest name of a run folder in the same folder, or of a shipped model."""
    others: list[str] = []
    with suppress(OSError):
        others = [other.name for other in folder.parent.iterdir() if (other / WEIGHTS).exists()]
    if (name := nearest(folder.name, others)) is not None:
        return str(folder.with_name(name))
    return nearest(str(folder), models)
