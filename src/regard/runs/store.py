"""Saved models: folders with weights, configuration and what belongs to the model, and no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard import weights as files
from regard.config import save as save_configuration
from regard.errors import DataError
from regard.files import checksum
from regard.runs.contract import AbstractModel
from regard.runs.fingerprints import DAMAGED
from regard.runs.trained_items import ITEMS

WEIGHTS = "model.safetensors"
CONFIGURATION = "config.yaml"
CARD = "card.md"
FINGERPRINTS = "data.json"


def save(model: AbstractModel[Any], folder: Path | str, *, half: bool = False) -> None:
    """Writes everything that prediction needs: `model.safetensors`, `config.yaml`, what belongs to the model, such as
    vocabularies, `data.json` (fingerprints of the training files) and, if it has one, its `card.md`.

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
    files.write(weights, folder / WEIGHTS, extra=header)


def file_names(folder: Path) -> set[str]:
    """The names of the files that a saved model in a folder consists of.

    Raises:
        DataError: for a folder without a readable model.
    """
    _, header = files.read(folder / WEIGHTS)
    return {WEIGHTS, CONFIGURATION, CARD, *header.get("files", ())}


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
