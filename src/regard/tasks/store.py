"""Saved models: folders with weights, configuration and vocabularies, and no code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from regard.config import differences
from regard.config import load as load_configuration
from regard.config import save as save_configuration
from regard.config.spelling import did_you_mean, nearest
from regard.config.tasks.text_to_text import ModelConfig, TextToTextConfig
from regard.data import Field
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError
from regard.tasks.text_to_text import TextToText
from regard.training import archive
from regard.training import weights as files
from regard.training.device import choose as choose_device
from regard.training.files import checksum

WEIGHTS = "model.safetensors"
CARD = "card.md"
FINGERPRINTS = "data.json"
CHECKED = ("source.json", "target.json", "source.model", "target.model", FINGERPRINTS)
"""Files whose checksums are saved with the weights."""
DAMAGED = "If it is damaged, copy it again from its origin, or train again."


def save(model: TextToText, folder: Path | str, *, half: bool = False) -> None:
    """Writes everything that prediction needs: `model.safetensors`, `config.yaml`, `source.json`,
    `target.json`, `data.json` (fingerprints of the training files) and, if it has one, its `card.md`.

    The header of `model.safetensors` has the format's version, checksums of the weights, the vocabularies and
    `data.json`, and the section `model` of the configuration, so that `load` refuses files that do not belong together.

    Args:
        model: the model.
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
    save_configuration(model.config, folder / "config.yaml")
    model.source.save(folder, "source")
    model.target.save(folder, "target")
    save_fingerprints(model, folder)
    if model.card:
        (folder / CARD).write_text(model.card, encoding="utf-8")
    names = [name for name in CHECKED if (folder / name).exists()]
    header = {
        "files": {name: checksum(folder / name) for name in names},
        "model": model.config.model.model_dump(mode="json"),
    }
    files.write(weights, folder / WEIGHTS, extra=header)


def load(name_or_folder: str | Path, *, device: str | torch.device = "auto") -> TextToText:
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
    source, target = _field(folder, "source"), _field(folder, "target")
    model = TextToText.build(config, source, target, name=folder.name)
    weights = {name: tensor.float() if tensor.dtype == torch.float16 else tensor for name, tensor in saved.items()}
    expected = {name: tensor.shape for name, tensor in model.module.state_dict().items() if name not in tied(model)}
    shapes = {name: tensor.shape for name, tensor in weights.items()}
    if shapes != expected:
        wrong = [name for name in {**expected, **shapes} if expected.get(name) != shapes.get(name)]
        lines = [f"  {name}: expected {_shape(expected.get(name))}, got {_shape(shapes.get(name))}" for name in wrong]
        raise DataError(f"{folder / WEIGHTS} does not belong to {folder / 'config.yaml'}:\n" + "\n".join(sorted(lines)))
    model.module.load_state_dict(weights, strict=False)
    model.fingerprints = load_fingerprints(folder)
    if (folder / CARD).exists():
        model.card = (folder / CARD).read_text(encoding="utf-8")
    model.module.to(choose_device(str(device)))
    return model


def save_fingerprints(model: TextToText, folder: Path) -> None:
    """Writes the SHA-256 of the files that a model is trained on."""
    (folder / FINGERPRINTS).write_text(json.dumps(model.fingerprints, indent=1) + "\n", encoding="utf-8")


def load_fingerprints(folder: Path) -> dict[str, str]:
    """The SHA-256 of the files that a model was trained on, by name; empty if there is no record.

    Raises:
        DataError: for a damaged file.
    """
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


def shipped() -> dict[str, Path]:
    """The models inside the package: name and folder."""
    root = Path(str(resources.files("regard") / "pretrained"))
    return {path.parent.name: path.parent for path in sorted(root.glob(f"*/{WEIGHTS}"))}


def tied(model: TextToText) -> list[str]:
    """The second names of weights that have several names; such weights are saved once."""
    seen: set[int] = set()
    names = []
    for name, parameter in model.module.named_parameters(remove_duplicate=False):
        if id(parameter) in seen:
            names.append(name)
        seen.add(id(parameter))
    return names


def _shape(shape: torch.Size | None) -> str:
    return "none" if shape is None else str(tuple(shape))


def _configuration(folder: Path, header: dict[str, Any]) -> TextToTextConfig:
    """The configuration beside the weights, which must be the one that the weights were saved with."""
    path = folder / "config.yaml"
    try:
        config = load_configuration(path).config
    except ConfigError as error:
        raise DataError(f"{error}\n  This is the configuration of the model {folder}. {DAMAGED}") from None
    try:
        built = config.model_copy(update={"model": ModelConfig(**header["model"])})
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


def _field(folder: Path, side: str) -> Field:
    try:
        return Field.load(folder, side)
    except (DataError, UnsupportedError):
        raise
    except (RegardError, TypeError) as error:
        raise DataError(f"{folder / side}.json: {error}\n  {DAMAGED}") from None


def find(name_or_folder: str | Path) -> Path:
    """The folder of a saved model.

    Raises:
        RegardError: if there is no such model; the text names the existing ones.
    """
    folder = Path(name_or_folder)
    for candidate in (folder, folder / "best"):
        if (candidate / WEIGHTS).exists():
            return candidate
    models = shipped()
    if str(name_or_folder) in models:
        return models[str(name_or_folder)]
    names = ", ".join(models) or "none"
    if (folder / archive.NAME / WEIGHTS).exists():
        reason = (
            f"{folder} has no model yet: its training began anew and has not reached a validation. The former model is "
            f"{folder / archive.NAME}."
        )
    elif folder.is_dir():
        reason = f"{folder} has no {WEIGHTS}. Is it a run folder whose training has reached a validation?"
    else:
        similar = _similar(folder, models)
        hint = f"; {did_you_mean(similar)}" if similar else "."
        reason = f"There is no folder and no shipped model {str(name_or_folder)!r}{hint}"
    raise RegardError(f"{reason} Shipped models: {names}.")


def _similar(folder: Path, models: Iterable[str]) -> str | None:
    """The nearest name of a run folder beside it, or of a shipped model."""
    beside: list[str] = []
    with suppress(OSError):
        beside = [other.name for other in folder.parent.iterdir() if (other / WEIGHTS).exists()]
    if (name := nearest(folder.name, beside)) is not None:
        return str(folder.with_name(name))
    return nearest(str(folder), models)
