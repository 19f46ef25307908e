"""Weights of other programs' Tacotrons, found by a table of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import DataError
from regard.models.tacotron import Tacotron

Find = str | Callable[[Callable[[str], Tensor]], Tensor]
"""Their module that stands for ours, or what makes our weight from theirs, which it is given by name."""
Names = Mapping[str, Find]


def load_named(model: Tacotron, weights: Mapping[str, Tensor], names: Names, *, unused: Iterable[str] = ()) -> Tacotron:
    """The model, with the weights of another program.

    Args:
        weights: theirs, by name.
        names: a table from our modules (or weights) to theirs; of several prefixes that fit, the longest.
        unused: weights of theirs that change nothing.

    Raises:
        DataError: for a weight that is missing, of another shape, or left over.
    """
    unread = set(weights) - set(unused)

    def find(name: str) -> Tensor:
        if name not in weights:
            raise DataError(f"There is no weight {name}.")
        unread.discard(name)
        return weights[name]

    with torch.no_grad():
        for name, ours in model.state_dict().items():
            prefix = max((key for key in names if name == key or name.startswith(f"{key}.")), key=len, default=None)
            if prefix is None:
                raise DataError(f"{name} has no name in the table of the other program.")
            found = names[prefix]
            if isinstance(found, str):
                kind = name[len(prefix) :]
                tensor = find(found + kind) if found + kind in weights else find(found + kind.removesuffix("_l0"))
            else:
                tensor = found(find)
            if tensor.shape != ours.shape:
                raise DataError(f"{name} needs {tuple(ours.shape)}; the other program has {tuple(tensor.shape)}.")
            ours.copy_(tensor)
    if unread:
        raise DataError(f"Weights that nothing here computes: {', '.join(sorted(unread))}.")
    return model


def numbered(ours: str, theirs: str, count: int) -> dict[str, Find]:
    """Modules that both count from 0; `{}` stands for the number."""
    return {ours.format(number): theirs.format(number) for number in range(count)}


def convolution_blocks(
    model: Tacotron, *, encoder: str, postnet: str, filters: str = "0", norm: str = "1"
) -> dict[str, Find]:
    """The blocks of a Tacotron 2: their lists of blocks, and the names of convolution and normalisation in a block."""
    sides: tuple[tuple[str, str, Any], ...] = (
        ("encoder", encoder, model.encoder),
        ("postnets.mel", postnet, model.postnets["mel"]),
    )
    table: dict[str, Find] = {}
    for side, theirs, module in sides:
        count = len(module.convolutions)
        table |= numbered(f"{side}.convolutions.{{}}.convolution.filters", f"{theirs}.{{}}.{filters}", count)
        table |= numbered(f"{side}.convolutions.{{}}.norm", f"{theirs}.{{}}.{norm}", count)
    return table


def transposed(name: str) -> Find:
    """Their linear layer on location features, as our projection (1, F, D)."""
    return lambda find: find(name).T[None]


def context_last(name: str, context_size: int) -> Find:
    """Columns [c; p] as [p; c]."""
    return lambda find: find(name).roll(-context_size, 1)


def frame_by_frame(name: str, num_features: int) -> Find:
    """Rows that hold the r frames of a feature together, as rows that hold the features of a frame together."""
    return lambda find: find(name).unflatten(0, (num_features, -1)).transpose(0, 1).flatten(0, 1)
