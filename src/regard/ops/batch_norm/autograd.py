"""Batch normalisation by compiled loops, as one node of the graph."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops import second_order
from regard.ops.batch_norm import reference
from regard.ops.batch_norm.reference import Activation, Result, Statistics
from regard.ops.eligibility import refuse_autocast, refuse_empty, refuse_kernels, refuse_numba, refuse_types

MODULE = "regard.ops.batch_norm.numba"
TOPS: dict[str, float | None] = {"none": None, "relu": math.inf, "relu6": 6.0}


def refuse(
    x: Any = None,
    mask: Any = None,
    weight: Any = None,
    bias: Any = None,
    residual: Any = None,
    statistics: Any = None,
    epsilon: float = 0.0,
    activation: Activation = "none",
) -> str | None:
    """Why compiled loops cannot take these inputs, or None."""
    return (
        refuse_kernels(x, mask, weight, bias, residual)
        or refuse_autocast(x)
        or refuse_types(x, residual, types=(torch.float32, torch.bfloat16))
        or refuse_types(weight, bias, types=(torch.float32,))
        or refuse_empty(x)
        or _refuse_rounding(x, residual, activation)
        or refuse_numba(MODULE, x)
    )


def _refuse_rounding(x: Any, residual: Any, activation: Activation) -> str | None:
    """Results near 6 become 6, which has no gradient."""
    if activation == "relu6" and residual is not None and x.dtype == torch.bfloat16:
        return "where relu6 ends cannot be read from rounded results"
    return None


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
    result: Result = _BatchNorm.apply(x, mask, weight, bias, residual, statistics, epsilon, activation)  # type: ignore[no-untyped-call]
    return result


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        mask: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        statistics: Statistics | None,
        epsilon: float,
        activation: Activation,
    ) -> Result:
        kernels: Any = import_module(MODULE)
        x = x.contiguous()
        rows = kernels.Rows(mask, x.shape)
        known = kernels.statistics(rows, x) if statistics is None else tuple(v.double() for v in statistics)
        mean, variance = known
        deviation = (variance + epsilon).sqrt()
        # torch's float32 mean is what x is compared with; a large mean costs no digits, as x - mean is nearly exact
        factor, centre = (weight.double() / deviation).float(), mean.float()
        top = TOPS[activation]
        added = None if residual is None else residual.contiguous()
        y = kernels.apply(rows, x, factor, centre, bias.contiguous(), added, top)
        ctx.save_for_backward(x, mask, weight, bias, residual, None if residual is None else y)
        ctx.known = rows, factor, centre, deviation, top
        ctx.options = statistics, epsilon, activation
        outputs = y, centre, variance.float(), torch.tensor(rows.count)
        ctx.mark_non_differentiable(*outputs[1:])
        return outputs

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, *_: Tensor) -> Any:
        x, mask, weight, bias, residual, y = ctx.saved_tensors
        needs = ctx.needs_input_grad[:5]
        statistics, epsilon, activation = ctx.options
        if torch.is_grad_enabled():  # create_graph: kernels leave no graph of the gradients

            def function(x: Any, mask: Any, weight: Any, bias: Any, residual: Any) -> tuple[Tensor]:
                known = statistics, epsilon, activation
                return (reference.batch_norm(x, mask, weight, bias, residual, *known)[0],)

            inputs = x, mask, weight, bias, residual
            return *second_order.gradients(function, inputs, needs, (grad_y,)), None, None, None
        kernels: Any = import_module(MODULE)
        rows, factor, centre, deviation, top = ctx.known
        grad_x, grad_weight, grad_bias, grad_residual = kernels.gradients(
            rows,
            grad_y.contiguous(),
            x,
            y,
            factor,
            centre,
            bias.contiguous(),
            deviation,
            top,
            through=statistics is None,
        )
        return grad_x, None, grad_weight, grad_bias, grad_residual, None, None, None
