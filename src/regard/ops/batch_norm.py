"""Batch normalisation over the real rows, with residual sum and activation, by the fastest implementation."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import ShapeError
from regard.ops.autograd import second_order_gradients
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import autocast_reason, empty_reason, kernel_reason, numba_reason, type_reason
from regard.shapes import Bool, Float, describe

MODULE = "regard.ops.kernels.batch_norm"
TOPS: dict[str, float | None] = {"none": None, "relu": math.inf, "relu6": 6.0}
Activation = Literal["none", "relu", "relu6"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "relu6": lambda x: x.clamp(0, 6),
}
Statistics = tuple[Tensor, Tensor]
"""Mean and biased variance (F,)."""
Result = tuple[Tensor, Tensor, Tensor, Tensor]
"""Normalised rows, mean, variance and N."""


def batch_norm(
    x: Float[Tensor, "*rows F"],
    mask: Bool[Tensor, "*rows"] | None,
    weight: Float[Tensor, " F"],
    bias: Float[Tensor, " F"],
    residual: Float[Tensor, "*rows F"] | None = None,
    *,
    statistics: Statistics | None = None,
    epsilon: float = 1e-5,
    activation: Activation = "none",
) -> tuple[Float[Tensor, "*rows F"], Float[Tensor, " F"], Float[Tensor, " F"], Tensor]:
    """y = f(w (x - mean) / √(variance + ε) + b + r) at the N real rows, 0 at the others; f is the activation.

    Mean and variance (divided by N) are those of the real rows. Gradients go through the statistics; the returned
    statistics have none. With a single row, x - mean and the variance are 0.

    Args:
        mask: True at real rows; all if None.
        residual: r; 0 if None.
        statistics: mean and variance to use instead of those of the rows.
        epsilon: ε.
        activation: f: none, relu, or relu6, min(max(x, 0), 6).

    Returns:
        y of the type of x, mean, variance, and N (0-d).

    Raises:
        ShapeError: for sizes that disagree.

    Source: Ioffe & Szegedy 2015 (arXiv 1502.03167), algorithm 1.
    """
    shape, size = x.shape, x.shape[-1]
    fits = weight.shape == bias.shape == (size,) and (residual is None or residual.shape == shape)
    if not fits or (mask is not None and mask.shape != shape[:-1]):
        shown = {"x": ("", x), "weight": ("F", weight), "bias": ("F", bias)}
        shown |= {} if mask is None else {"mask": ("", mask)}
        shown |= {} if residual is None else {"residual": ("", residual)}
        raise ShapeError("x (..., F), mask (...), weight, bias (F,) and residual must agree.\n" + describe(shown))
    inputs = (
        x.reshape(-1, size),
        None if mask is None else mask.reshape(-1),
        weight,
        bias,
        None if residual is None else residual.reshape(-1, size).to(x.dtype),
        statistics,
        epsilon,
        activation,
    )
    y, mean, variance, count = choose(BATCH_NORM, *inputs).function(*inputs)
    return y.view(shape), mean, variance, count


def reference(
    x: Float[Tensor, "R F"],
    mask: Bool[Tensor, " R"] | None,
    weight: Float[Tensor, " F"],
    bias: Float[Tensor, " F"],
    residual: Float[Tensor, "R F"] | None,
    statistics: Statistics | None,
    epsilon: float,
    activation: Activation,
) -> Result:
    """The formula of `batch_norm`."""
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
    """x with zeros, and no gradients, at padding, which may hold NaN."""
    return x if real is None else x.masked_fill(~real, 0)


def real_rows_reason(x: Any = None, mask: Any = None, *rest: Any) -> str | None:
    """Why torch's operation on the selected real rows cannot be taken, or None."""
    if x is None or mask is None:
        return None
    if x.device.type != "cpu":
        return "on a GPU, selecting rows would wait for their number"
    return kernel_reason(x, mask)


def of_real_rows(
    x: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    residual: Tensor | None,
    statistics: Statistics | None,
    epsilon: float,
    activation: Activation,
) -> Result:
    """As the reference, by torch's operation on the real rows."""
    rows = x if mask is None else x[mask]
    if statistics is not None or len(rows) < 2:  # torch refuses the variance of a single row
        return reference(x, mask, weight, bias, residual, statistics, epsilon, activation)
    # running statistics with a momentum of 1: they become the mean and the unbiased variance
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


def loops_reason(
    x: Any = None,
    mask: Any = None,
    weight: Any = None,
    bias: Any = None,
    residual: Any = None,
    statistics: Any = None,
    epsilon: float = 0.0,
    activation: Activation = "none",
) -> str | None:
    """Why compiled loops cannot be taken, or None."""
    return (
        kernel_reason(x, mask, weight, bias, residual)
        or autocast_reason(x)
        or type_reason(x, residual, types=(torch.float32, torch.bfloat16))
        or type_reason(weight, bias, types=(torch.float32,))
        or empty_reason(x)
        or (
            "in bfloat16, results near 6 are rounded to 6, where relu6 has no gradient"
            if activation == "relu6" and residual is not None and x.dtype == torch.bfloat16
            else numba_reason(MODULE, x)
        )
    )


def by_kernels(*inputs: Any) -> Result:
    """As the reference, by compiled loops, as one node of the graph."""
    result: Result = _BatchNorm.apply(*inputs)  # type: ignore[no-untyped-call]
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
        rows = kernels.RealRows(mask, x.shape)
        known = kernels.statistics(rows, x) if statistics is None else tuple(v.double() for v in statistics)
        mean, variance = known
        deviation = (variance + epsilon).sqrt()
        # as in torch, the mean is rounded to float32; x - mean is nearly exact, so a large mean costs no digits
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
        statistics = ctx.options[0]
        if torch.is_grad_enabled():  # create_graph: kernels leave no graph of the gradients
            return _second_order(ctx, (x, mask, weight, bias, residual), grad_y)
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


def sums_reason(x: Any = None, mask: Any = None, *rest: Any) -> str | None:
    """Why the formula with its own gradients cannot be taken, or None."""
    if x is not None and x.device.type == "cpu":
        return "it is for a GPU; on the CPU the real rows are selected"
    return kernel_reason(x, mask)


def by_sums(x: Tensor, mask: Tensor, *rest: Any) -> Result:
    """As the reference with a mask, as one node of the graph, with as few passes over x and its gradient as torch's."""
    result: Result = _BySums.apply(x, mask[:, None], *rest)  # type: ignore[no-untyped-call]
    return result


class _BySums(torch.autograd.Function):
    """The equations of `regard.ops.kernels.batch_norm`, with zeros for d and g at padding."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        real: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        statistics: Statistics | None,
        epsilon: float,
        activation: Activation,
    ) -> Result:
        padding, count = ~real, real.sum()
        divisor, top = count.clamp(min=1), TOPS[activation]
        d = x.to(torch.promote_types(x.dtype, weight.dtype)).masked_fill(padding, 0)
        if statistics is None:
            mean = d.sum(0) / divisor
            d.sub_(mean).masked_fill_(padding, 0)
            variance = torch.linalg.vector_norm(d, dim=0).square_() / divisor
        else:
            mean, variance = (v.detach() for v in statistics)
            d.sub_(mean).masked_fill_(padding, 0)
        inverse = torch.rsqrt(variance + epsilon)
        factor = weight * inverse
        y = torch.addcmul(bias, d, factor)
        if residual is not None:
            y.add_(residual)
        if top is not None:
            y.clamp_(0, top)
        y.masked_fill_(padding, 0)
        ctx.save_for_backward(x, real, weight, bias, residual, y, d, padding, inverse, factor, divisor)
        ctx.options = statistics, epsilon, activation
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(mean, variance, count)
        return y.to(x.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None, *_: None) -> Any:
        if grad_y is None:
            return (None,) * 8
        x, real, weight, bias, residual, y, d, padding, inverse, factor, divisor = ctx.saved_tensors
        statistics, _, activation = ctx.options
        if torch.is_grad_enabled():  # create_graph: in torch's operations
            return _second_order(ctx, (x, real[:, 0], weight, bias, residual), grad_y)
        g, top = grad_y.to(d.dtype), TOPS[activation]
        if top is None:
            g = g.masked_fill(padding, 0)
        else:  # y is 0 at padding
            g = torch.ops.aten.hardtanh_backward(g, y, 0.0, top)
        grad_bias, grad_weight = g.sum(0), (g * d).sum(0) * inverse
        grad_x = g * factor
        if statistics is None:
            share = factor / divisor
            grad_x.sub_(share * grad_bias).addcmul_(d, share * inverse * grad_weight, value=-1).masked_fill_(padding, 0)
        grad_residual = None if residual is None else g.to(residual.dtype)
        return grad_x.to(x.dtype), None, grad_weight, grad_bias, grad_residual, None, None, None


def _second_order(ctx: Any, inputs: tuple[Tensor | None, ...], grad_y: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of x, mask, weight, bias and residual in torch's operations, as a part of the graph."""

    def function(*inputs: Any) -> tuple[Tensor]:
        return (reference(*inputs, *ctx.options)[0],)

    return *second_order_gradients(function, inputs, ctx.needs_input_grad[:5], (grad_y,)), None, None, None


BATCH_NORM = (
    Implementation("numba", by_kernels, loops_reason),
    Implementation("selection", of_real_rows, real_rows_reason),
    Implementation("sums", by_sums, sums_reason),
    Implementation("reference", reference),
)
