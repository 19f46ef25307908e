"""The nonlinearity φ of e = v · φ(q + k)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import RegardError

Activation = Literal["tanh", "relu", "leaky_relu"]


def find_slope(activation: Activation, slope: float | None) -> float | None:
    """What a rectifier multiplies negative numbers by: 0 for relu, 0.01 if None for leaky_relu. For tanh it is None.

    Raises:
        RegardError: for an unknown activation, and for a slope of an activation that has none.
    """
    if activation == "tanh" and slope is None:
        return None
    if activation == "leaky_relu":
        return 0.01 if slope is None else float(slope)
    if activation not in ("tanh", "relu"):
        raise RegardError(f"activation={activation!r}: there are tanh, relu and leaky_relu.")
    if slope is not None:
        raise RegardError(f"slope={slope} is for activation='leaky_relu'; this is {activation!r}, which has none.")
    return 0.0


def activate(x: Tensor, slope: float | None) -> Tensor:
    """tanh(x), max(x, 0) or the leaky rectifier."""
    if slope is None:
        return torch.tanh(x)
    return functional.leaky_relu(x, slope) if slope else torch.relu(x)
