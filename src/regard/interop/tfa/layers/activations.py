"""Activations by Keras' names."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
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
        raise ConfigError(f"No activation is called {wanted!r}: give one of {', '.join(ACTIVATIONS)}, or a function.")
    return ACTIVATIONS[wanted]
