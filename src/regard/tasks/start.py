"""Initial weights from a saved model, as far as they fit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.vocabulary import SPECIALS, Vocabulary
from regard.errors import ConfigError, DataError, RegardError
from regard.files import checksum
from regard.layers import TokenEmbedding, TokenHead
from regard.tasks.contract import AbstractModel
from regard.tasks.fingerprints import training_files
from regard.tasks.loading import find, load
from regard.training.progress import say

KEY_PATH = ("training", "start_from")
WRAPPED = ("core", "content")
"""The names under which a pointer has its decoder, and a score with coverage or locations that of contents."""
SHOWN = 10
"""The most symbols or weights that a message lists."""


def find_start(start: Path) -> Path:
    """The folder of the model that `training.start_from` names: a folder, or a shipped model's name.

    Raises:
        ConfigError: if there is no such model.
    """
    try:
        return find(start if start.is_dir() else start.name)
    except RegardError as error:
        raise ConfigError(f"{start} is not a saved model. {error}", KEY_PATH) from None


def start_from(model: AbstractModel[Any], start: Path) -> None:
    """Copies the weights of a saved model into an untrained one, and prints which were copied and which were not.

    A weight is copied if its name and shape agree; a pointer or coverage may be new, or gone. Rows that belong to
    symbols (of embeddings and of the output layer) are copied by symbol, so the vocabularies may differ; other symbols
    keep their initial values. From then on the model counts as trained on the data of both.

    Args:
        model: the model that is about to be trained.
        start: the value of `training.start_from`.

    Raises:
        ConfigError: if there is no such model, or no weight fits.
        DataError: for a damaged model, and for held-out data that it was trained on.
    """
    folder = find_start(start)
    base = load(folder, device="cpu")
    if base.config.task != model.config.task:
        raise ConfigError(f"{folder} is a model of another task, {base.config.task}", KEY_PATH)
    held_out = {value for name, value in model.fingerprints.items() if name.split(".")[0] == "dev"}
    if held_out & training_files(base.fingerprints):
        raise DataError(
            f"{folder} was trained on data.dev, so metrics on it would be meaningless; hold out other pairs."
        )
    lines = []
    for side, (_, vocabulary) in model.vocabularies().items():
        _, saved = base.vocabularies()[side]
        added = [symbol for symbol in vocabulary.symbols if symbol not in saved]
        note, count = f"; new: {_listed(added)}" if added else "", len(vocabulary.symbols)
        lines.append(f"  {side}: {count - len(added):,} of {count:,} symbols are known{note}")
    lines += [f"  {difference}" for difference in model.unlike(base)]
    copied, skipped = _transfer(model, base)
    if not copied:
        raise ConfigError(f"no weight of {folder} fits this model:\n  {_listed(skipped)}", KEY_PATH)
    lines.insert(0, f"  {copied:,} of {copied + len(skipped):,} weights are copied")
    lines += [f"  not copied: {text}" for text in skipped[:SHOWN]]
    if len(skipped) > SHOWN:
        lines.append(f"  not copied: {len(skipped) - SHOWN:,} more")
    say("\n".join([f"Training starts from {folder}:", *lines]))
    model.fingerprints |= {f"start_from.{name}": value for name, value in base.fingerprints.items()}
    if model.trained_items is not None:
        model.trained_items |= base.trained_items
    model.fingerprints["start_from"] = checksum(folder / "model.safetensors")


@torch.no_grad()
def _transfer(model: AbstractModel[Any], base: AbstractModel[Any]) -> tuple[int, list[str]]:
    """How many weights were copied, and why each of the others was not."""
    source, symbolic = base.module.state_dict(), _symbolic(model.module)
    names = Counter(map(_unwrapped, source))
    wrapped = {_unwrapped(name): weight for name, weight in source.items() if names[_unwrapped(name)] == 1}
    copied, skipped = 0, []
    for name, weight in model.module.state_dict().items():
        saved = source.get(name, wrapped.get(_unwrapped(name)))
        if saved is None:
            skipped.append(f"{name}: the saved model has none")
        elif name in symbolic and saved.shape[1:] == weight.shape[1:]:
            side = next(side for side, (prefix, _) in model.vocabularies().items() if name.startswith(prefix))
            rows, saved_rows = _rows(model.vocabularies()[side][1], base.vocabularies()[side][1])
            weight[rows] = saved[saved_rows].to(weight.dtype)
            copied += 1
        elif saved.shape == weight.shape:
            weight.copy_(saved)
            copied += 1
        else:
            skipped.append(f"{name}: saved with shape {tuple(saved.shape)}, here {tuple(weight.shape)}")
    return copied, skipped


def _unwrapped(name: str) -> str:
    """The name that a weight has without the parts that wrap it.

    >>> _unwrapped("decoder.core.attention.score.content.v")
    'decoder.attention.score.v'
    """
    return ".".join(part for part in name.split(".") if part not in WRAPPED)


def _symbolic(module: nn.Module) -> set[str]:
    """The names of the weights with one row per symbol."""
    names = set()
    for name, part in module.named_modules():
        if isinstance(part, TokenEmbedding):
            names.add(f"{name}.table.weight")
        elif isinstance(part, TokenHead):
            names |= {f"{name}.projection.weight", f"{name}.projection.bias"}
    return names


def _rows(vocabulary: Vocabulary, saved: Vocabulary) -> tuple[Tensor, Tensor]:
    """The ids, in each vocabulary, of the special symbols and of those that are in both."""
    shared = [symbol for symbol in vocabulary.symbols if symbol in saved]
    specials = torch.arange(len(SPECIALS))
    ids, saved_ids = (torch.from_numpy(entry.ids(shared)) for entry in (vocabulary, saved))
    return torch.cat([specials, ids]), torch.cat([specials, saved_ids])


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
    return " ".join(texts[:SHOWN]) + more
