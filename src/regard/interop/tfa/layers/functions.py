"""Activations and initial weights by Keras' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import ConfigError

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation | None] = {
    "linear": None,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "softplus": functional.softplus,
    "softmax": lambda x: x.softmax(-1),
}


def activation_of(wanted: str | Activation | None) -> Activation | None:
    """The function of a name, or the function itself; None for the identity.

    Raises:
        ConfigError: for an unknown name.
    """
    if wanted is None or callable(wanted):
        return wanted
    if wanted not in ACTIVATIONS:
        raise ConfigError(f"Unknown activation {wanted!r}: give one of {', '.join(ACTIVATIONS)}, or a function.")
    return ACTIVATIONS[wanted]


Initialiser = str | Callable[[Tensor], Any]
"""A name, as "glorot_uniform", or a function that fills a tensor in place, as those of `torch.nn.init`."""

_TRUNCATED = 0.87962566103423978
"""The standard deviation of a standard normal variable truncated at ±2."""


def _fans(weight: Tensor) -> tuple[int, int]:
    """The numbers of inputs and outputs; the length of a vector for both, as in Keras."""
    return weight.shape[-1], weight.shape[0]


def _uniform(variance: Callable[[int, int], float]) -> Callable[[Tensor], Any]:
    def fill(weight: Tensor) -> None:
        limit = (3 * variance(*_fans(weight))) ** 0.5
        nn.init.uniform_(weight, -limit, limit)

    return fill


def _normal(variance: Callable[[int, int], float]) -> Callable[[Tensor], Any]:
    def fill(weight: Tensor) -> None:
        deviation = variance(*_fans(weight)) ** 0.5 / _TRUNCATED
        nn.init.trunc_normal_(weight, 0.0, deviation, -2 * deviation, 2 * deviation)

    return fill


INITIALISERS: dict[str, Callable[[Tensor], Any]] = {
    "glorot_uniform": _uniform(lambda inputs, outputs: 2 / (inputs + outputs)),
    "glorot_normal": _normal(lambda inputs, outputs: 2 / (inputs + outputs)),
    "he_uniform": _uniform(lambda inputs, outputs: 2 / inputs),
    "he_normal": _normal(lambda inputs, outputs: 2 / inputs),
    "lecun_uniform": _uniform(lambda inputs, outputs: 1 / inputs),
    "lecun_normal": _normal(lambda inputs, outputs: 1 / inputs),
    "uniform": lambda weight: nn.init.uniform_(weight, -0.05, 0.05),
    "random_uniform": lambda weight: nn.init.uniform_(weight, -0.05, 0.05),
    "random_normal": lambda weight: nn.init.normal_(weight, 0.0, 0.05),
    "orthogonal": nn.init.orthogonal_,
    "zeros": nn.init.zeros_,
    "ones": nn.init.ones_,
}
"""By name, for weights (outputs, inputs) as in torch, transposed kernels of Keras."""


def initialiser(wanted: Initialiser) -> Callable[[Tensor], Any]:
    """The function that fills a tensor.

    Raises:
        ConfigError: for an unknown name.

    >>> initialiser("glorot_uniform")(torch.empty(3, 2))
    """
    if callable(wanted):
        return wanted
    if wanted not in INITIALISERS:
        raise ConfigError(
            f"Unknown initialiser {wanted!r}: give one of {', '.join(INITIALISERS)}, or a function that fills a "
            "tensor, as torch.nn.init.xavier_uniform_."
        )
    return INITIALISERS[wanted]


def fill(weight: Tensor, wanted: Initialiser) -> None:
    """Initialises a weight in place, outside of autograd."""
    with torch.no_grad():
        initialiser(wanted)(weight)
