"""Starting from the weights of a saved model, as far as they fit."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.data.vocabulary import SPECIALS, Vocabulary
from regard.errors import ConfigError, DataError, RegardError
from regard.layers import TokenEmbedding, TokenHead
from regard.tasks.store import find, load
from regard.tasks.text_to_text import TextToText, training_files
from regard.training.files import checksum

PLACE = ("training", "start_from")
SHOWN = 10
"""Symbols and weights that a message lists."""


def find_start(start: Path) -> Path:
    """The folder of the model that `training.start_from` names: a folder, or a shipped model's name.

    Raises:
        ConfigError: when there is no such model.
    """
    try:
        return find(start if start.is_dir() else start.name)
    except RegardError as error:
        raise ConfigError(f"{start} is no saved model. {error}", PLACE) from None


def start_from(model: TextToText, start: Path) -> None:
    """Takes the weights of a saved model into an untrained one, and prints what was taken and what was not.

    A weight is taken if name and shape agree. Rows that stand for symbols (of embeddings, and of the output layer) are
    taken by symbol, so the vocabularies may differ; new symbols keep what they were initialised with. From then on the
    model counts as trained on the data of both.

    Args:
        model: what is about to be trained.
        start: as the configuration has it.

    Raises:
        ConfigError: when there is no such model, or no weight fits.
        DataError: for a damaged model, and for held-out data that it was trained on.
    """
    folder = find_start(start)
    base = load(folder, device="cpu")
    if model.fingerprints.get("dev") in training_files(base.fingerprints):
        raise DataError(
            f"data.dev is what {folder} was trained on, so the figures on it would mean nothing; hold out other pairs."
        )
    lines = []
    for side in ("source", "target"):
        ours, theirs = getattr(model, side), getattr(base, side)
        new = [symbol for symbol in ours.vocabulary.symbols if symbol not in theirs.vocabulary]
        known = len(ours.vocabulary.symbols) - len(new)
        note = f"; new: {_listed(new)}" if new else ""
        lines.append(f"  {side}: {known:,} of {len(ours.vocabulary.symbols):,} symbols are known{note}")
        if ours.normalisation != theirs.normalisation:
            lines.append(f"  {side}: its texts were normalised otherwise ({theirs.normalisation}), which is not taken")
    taken, refused = _transfer(model, base)
    if not taken:
        raise ConfigError(f"none of its weights fits this model:\n  {_listed(refused)}", PLACE)
    lines.insert(0, f"  {taken:,} of {taken + len(refused):,} weights are taken")
    lines += [f"  not taken: {text}" for text in refused[:SHOWN]]
    if len(refused) > SHOWN:
        lines.append(f"  not taken: {len(refused) - SHOWN:,} more")
    print("\n".join([f"The start is {folder}:", *lines]), file=sys.stderr)
    model.fingerprints |= {f"start_from.{name}": value for name, value in base.fingerprints.items()}
    model.fingerprints["start_from"] = checksum(folder / "model.safetensors")


@torch.no_grad()
def _transfer(model: TextToText, base: TextToText) -> tuple[int, list[str]]:
    """How many weights were copied, and why each of the others was not."""
    source, symbolic = base.module.state_dict(), _symbolic(model.module)
    taken, refused = 0, []
    for name, weight in model.module.state_dict().items():
        if name not in source:
            refused.append(f"{name}: there is none")
        elif name in symbolic and source[name].shape[1:] == weight.shape[1:]:
            side = "source" if name.startswith("encoder.") else "target"
            ours, theirs = getattr(model, side).vocabulary, getattr(base, side).vocabulary
            to, origin = _rows(ours, theirs)
            weight[to] = source[name][origin].to(weight.dtype)
            taken += 1
        elif source[name].shape == weight.shape:
            weight.copy_(source[name])
            taken += 1
        else:
            refused.append(f"{name}: {tuple(source[name].shape)} there, {tuple(weight.shape)} here")
    return taken, refused


def _symbolic(module: nn.Module) -> set[str]:
    """The names of the weights that have a row for every symbol."""
    names = set()
    for name, part in module.named_modules():
        if isinstance(part, TokenEmbedding):
            names.add(f"{name}.table.weight")
        elif isinstance(part, TokenHead):
            names |= {f"{name}.projection.weight", f"{name}.projection.bias"}
    return names


def _rows(ours: Vocabulary, theirs: Vocabulary) -> tuple[Tensor, Tensor]:
    """Ids here and there of the special symbols and of those that both vocabularies have."""
    shared = [symbol for symbol in ours.symbols if symbol in theirs]
    specials = torch.arange(len(SPECIALS))
    here, there = (torch.from_numpy(vocabulary.ids(shared)) for vocabulary in (ours, theirs))
    return torch.cat([specials, here]), torch.cat([specials, there])


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
    return " ".join(texts[:SHOWN]) + more
