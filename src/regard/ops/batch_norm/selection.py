"""Batch normalisation of the real rows, which are selected first, by torch's own operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.ops.batch_norm import reference
from regard.ops.batch_norm.reference import ACTIVATIONS, Activation, Result, Statistics
from regard.ops.eligibility import refuse_kernels


def refuse(x: Any = None, mask: Any = None, *rest: Any) -> str | None:
    """Why the real rows cannot be selected, or None."""
    return None if x is None or mask is None else refuse_kernels(x, mask)


def batch_norm(
    x: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    residual: Tensor | None,
    statistics: Statistics | None,
    epsilon: float,
    activation: Activation,
) -> Result:
    """As the reference."""
    rows = x if mask is None else x[mask]
    if statistics is not None or len(rows) < 2:  # torch refuses the variance of a single row
        return reference.batch_norm(x, mask, weight, bias, residual, statistics, epsilon, activation)
    # buffers that move wholly: they become the mean, and the variance divided by N - 1
    mean = torch.zeros_like(weight, requires_grad=False)
    variance = torch.ones_like(mean)
    y = functional.batch_norm(rows, mean, variance, weight, bias, True, 1.0, epsilon)
    if mask is not None:
        y = torch.zeros_like(x, dtype=y.dtype).masked_scatter(mask[:, None], y)
    if residual is not None:
        y = y + (residual if mask is None else residual.masked_fill(~mask[:, None], 0))
    count = len(rows)
    variance = variance * ((count - 1) / count)
    return ACTIVATIONS[activation](y), mean, variance, torch.full((), count, device=x.device)
