"""Saved models: a folder with weights, configuration and vocabularies, and nothing that runs."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from regard.config import load as load_configuration
from regard.config import save as save_configuration
from regard.data import Field
from regard.errors import DataError, RegardError
from regard.tasks.text_to_text import TextToText
from regard.training.device import choose as choose_device

WEIGHTS = "model.safetensors"
CARD = "card.md"
FINGERPRINTS = "data.json"


def save(model: TextToText, folder: Path | str, *, half: bool = False) -> None:
    """Writes everything that prediction needs: `model.safetensors`, `config.yaml`, `source.json`,
    `target.json`, `data.json` (fingerprints of the training files) and, if it has one, its `card.md`.

    Args:
        model: what is saved.
        folder: made if need be; files of the same names are replaced.
        half: weights in float16, half the size; they are computed with in float32 all the same.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.module.state_dict().items()}
    for name in tied(model):
        del weights[name]
    if half:
        weights = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    # One key alone: safetensors writes several in any order, and equal models are to be equal files.
    save_file(weights, folder / WEIGHTS, metadata={"format": "1"})
    save_configuration(model.config, folder / "config.yaml")
    (folder / WEIGHTS).chmod((folder / "config.yaml").stat().st_mode)  # safetensors writes for the owner alone
    model.source.save(folder, "source")
    model.target.save(folder, "target")
    save_fingerprints(model, folder)
    if model.card:
        (folder / CARD).write_text(model.card, encoding="utf-8")


def load(name_or_folder: str | Path, *, device: str | torch.device = "auto") -> TextToText:
    """A model that came with regard, as "g2p-en", or the best model of a run folder.

    Args:
        name_or_folder: a shipped model's name (`regard list models`) or a folder.
        device: "auto" takes a GPU if there is one.

    Raises:
        RegardError: when there is no such model; the text names those there are.
        DataError: for files that are missing or do not belong together.
    """
    folder = _find(name_or_folder)
    configuration = load_configuration(folder / "config.yaml")
    source, target = Field.load(folder, "source"), Field.load(folder, "target")
    model = TextToText.build(configuration.config, source, target, name=folder.name)
    weights = {
        name: tensor.float() if tensor.dtype == torch.float16 else tensor
        for name, tensor in load_file(folder / WEIGHTS).items()
    }
    expected = {name: tensor.shape for name, tensor in model.module.state_dict().items() if name not in tied(model)}
    found = {name: tensor.shape for name, tensor in weights.items()}
    if found != expected:
        odd = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
        lines = [f"  {name}: expected {_shape(expected.get(name))}, found {_shape(found.get(name))}" for name in odd]
        raise DataError(f"{folder / WEIGHTS} does not belong to {folder / 'config.yaml'}:\n" + "\n".join(sorted(lines)))
    model.module.load_state_dict(weights, strict=False)
    model.fingerprints = load_fingerprints(folder)
    if (folder / CARD).exists():
        model.card = (folder / CARD).read_text(encoding="utf-8")
    model.module.to(choose_device(str(device)))
    return model


def save_fingerprints(model: TextToText, folder: Path) -> None:
    """Writes what a model is trained on, as SHA-256 of the files."""
    (folder / FINGERPRINTS).write_text(json.dumps(model.fingerprints, indent=1) + "\n", encoding="utf-8")


def load_fingerprints(folder: Path) -> dict[str, str]:
    """What a model was trained on; empty where nothing says so."""
    path = folder / FINGERPRINTS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def shipped() -> dict[str, Path]:
    """The models inside the package: name and folder."""
    root = Path(str(resources.files("regard") / "pretrained"))
    return {path.parent.name: path.parent for path in sorted(root.glob(f"*/{WEIGHTS}"))}


def tied(model: TextToText) -> list[str]:
    """Names of weights that are another's under a second name; they are saved once."""
    seen: set[int] = set()
    names = []
    for name, parameter in model.module.named_parameters(remove_duplicate=False):
        if id(parameter) in seen:
            names.append(name)
        seen.add(id(parameter))
    return names


def _shape(shape: torch.Size | None) -> str:
    return "none" if shape is None else str(tuple(shape))


def _find(name_or_folder: str | Path) -> Path:
    folder = Path(name_or_folder)
    for place in (folder, folder / "best"):
        if (place / WEIGHTS).exists():
            return place
    models = shipped()
    if str(name_or_folder) in models:
        return models[str(name_or_folder)]
    known = ", ".join(models) or "none"
    if folder.is_dir():
        reason = f"{folder} has no {WEIGHTS}: is it a run folder, and has the training validated once?"
    else:
        reason = f"There is no folder and no shipped model {str(name_or_folder)!r}."
    raise RegardError(f"{reason} Shipped models: {known}.")
