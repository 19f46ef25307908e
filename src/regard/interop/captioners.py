"""Captioners with the weights of other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import DataError
from regard.models import RecurrentDecoder
from regard.models.captioner import captioner


class CaptionerWeights:
    """Weights by name, of which each is to be taken."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.left = dict(weights)

    def take(self, name: str) -> Tensor:
        """A weight, or DataError."""
        if name not in self.left:
            raise DataError(f"There is no weight {name}; there are {', '.join(sorted(self.left)) or 'none'}.")
        return self.left.pop(name).detach()

    def linear(self, name: str) -> tuple[Tensor, Tensor]:
        """W and b of a linear layer of torch."""
        return self.take(f"{name}.weight"), self.take(f"{name}.bias")

    def product(self, name: str) -> tuple[Tensor, Tensor]:
        """W and b of x W + b, W transposed as torch has it."""
        return self.take(f"{name}_W").t(), self.take(f"{name}_b")

    def finish(self) -> None:
        """DataError if any was not taken."""
        if self.left:
            raise DataError(f"Weights that nothing here computes: {', '.join(sorted(self.left))}.")


def cell_weights(*weights: Tensor) -> dict[str, Tensor]:
    """The weights of an LSTM layer by our names."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {f"stack.layers.0.{name}_l0": weight for name, weight in zip(names, weights, strict=True)}


def load_captioner(like: str, weights: Mapping[str, Tensor], **options: Any) -> RecurrentDecoder:
    """A captioner with these weights, in float32 or, as they are, in float64."""
    table, hidden = weights["embedding.table.weight"], weights["stack.layers.0.weight_hh_l0"]
    keys = next(name for name in weights if name.endswith("key_projection.weight"))
    width, memory_size = weights[keys].shape
    decoder = captioner(
        len(table),
        memory_size=memory_size,
        embedding_size=table.shape[1],
        size=hidden.shape[1],
        attention_size=width,
        like=like,
        **options,
    )
    if all(weight.dtype == torch.float64 for weight in weights.values()):
        decoder.double()
    parameters = dict(decoder.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            if weight.shape != parameters[name].shape:
                raise DataError(f"{name} needs {tuple(parameters[name].shape)}; the weight is {tuple(weight.shape)}.")
            parameters[name].copy_(weight)
    assert set(weights) == set(parameters), set(parameters) ^ set(weights)
    return decoder
