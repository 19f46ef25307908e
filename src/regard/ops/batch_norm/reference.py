"""Batch normalisation of real rows, in torch's operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from regard.shapes import Bool, Float

Activation = Literal["none", "relu", "relu6"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "relu6": lambda x: x.clamp(0, 6),
}
Statistics = tuple[Tensor, Tensor]
"""Mean and variance (F,), the variance divided by N."""
Result = tuple[Tensor, Tensor, Tensor, Tensor]
"""Normalised rows, mean, variance and N."""


def batch_norm(
    x: Float[Tensor, "R F"],
    mask: Bool[Tensor, " R"] | None,
    weight: Float[Tensor, " F"],
    bias: Float[Tensor, " F"],
    residual: Float[Tensor, "R F"] | None,
    statistics: Statistics | None,
    epsilon: float,
    activation: Activation,
) -> Result:
    """As `regard.ops.batch_norm.batch_norm`, of rows."""
    real = None if mask is None else mask[:, None]
    wide = _zeroed(x.to(torch.promote_types(x.dtype, weight.dtype)), real)
    count = torch.full((), len(x), device=x.device) if mask is None else mask.sum()
    if statistics is None:
        divisor = count.clamp(min=1)
        mean = wide.sum(0) / divisor
        variance = _zeroed(wide - mean, real).square().sum(0) / divisor
    else:
        mean, variance = statistics
    y = (wide - mean) * (weight * torch.rsqrt(variance + epsilon)) + bias
    if residual is not None:
        y = y + residual
    return _zeroed(ACTIVATIONS[activation](y), real).to(x.dtype), mean.detach(), variance.detach(), count


def _zeroed(x: Tensor, real: Tensor | None) -> Tensor:
    """Zeros, and no gradients, at padding, whatever stands there."""
    return x if real is None else x.masked_fill(~real, 0)
