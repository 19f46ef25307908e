"""Captioners with the weights of other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.errors import DataError
from regard.interop.named_weights import load_named
from regard.models import RecurrentDecoder
from regard.models.captioner import captioner


class CaptionerWeights:
    """Weights by name, each of which must be taken."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.left = dict(weights)

    def take(self, name: str) -> Tensor:
        """A weight.

        Raises:
            DataError: if it is missing.
        """
        if name not in self.left:
            raise DataError(f"There is no weight {name}; there are {', '.join(sorted(self.left)) or 'none'}.")
        return self.left.pop(name).detach()

    def linear(self, name: str) -> tuple[Tensor, Tensor]:
        """W and b of a linear layer of torch."""
        return self.take(f"{name}.weight"), self.take(f"{name}.bias")

    def product(self, name: str) -> tuple[Tensor, Tensor]:
        """W and b of x W + b, with W transposed as in torch."""
        return self.take(f"{name}_W").t(), self.take(f"{name}_b")

    def finish(self) -> None:
        """Refuses weights that were not taken."""
        if self.left:
            raise DataError(f"Weights that no module here has: {', '.join(sorted(self.left))}.")


def cell_weights(*weights: Tensor) -> dict[str, Tensor]:
    """The weights of an LSTM layer by our names."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {f"stack.layers.0.{name}_l0": weight for name, weight in zip(names, weights, strict=True)}


def load_captioner(like: str, weights: Mapping[str, Tensor], **options: Any) -> RecurrentDecoder:
    """A captioner of the sizes of these weights, which are named as ours."""
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
    return load_named(decoder, weights, {})
