"""Layer normalisation whose output is in the type that products read."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.ops.autograd import second_order_gradients
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import empty_reason, kernel_reason, triton_reason, type_reason
from regard.shapes import Float

KERNELS = "regard.ops.kernels.layer_norm_triton"
WIDEST = 1 << 13
"""The most features of a row, all of which a program of the kernels holds."""


def layer_norm(
    x: Float[Tensor, "*rows D"],
    weight: Float[Tensor, " D"],
    bias: Float[Tensor, " D"],
    epsilon: float = 1e-5,
    kind: torch.dtype | None = None,
) -> Float[Tensor, "*rows D"]:
    """y = w (x - mean) / √(variance + ε) + b, with mean and variance (divided by D) of each row.

    Args:
        kind: the type of y, that of x if None. Kernels for a GPU write y, and read its gradient, in a half type;
            torch's operation needs a conversion for each.

    Source: Ba et al. 2016 (arXiv 1607.06450).

    >>> layer_norm(torch.tensor([[1.0, 3.0]]), torch.ones(2), torch.zeros(2), kind=torch.bfloat16)
    tensor([[-1.,  1.]], dtype=torch.bfloat16)
    """
    inputs = x, weight, bias, epsilon, kind
    return choose(LAYER_NORM, *inputs).function(*inputs)


def reference(
    x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5, kind: torch.dtype | None = None
) -> Tensor:
    """As `layer_norm`, by torch's operation and a conversion."""
    return functional.layer_norm(x, weight.shape, weight, bias, epsilon).to(kind or x.dtype)


def _triton_reason(
    x: Any = None, weight: Any = None, bias: Any = None, epsilon: float = 1e-5, kind: torch.dtype | None = None
) -> str | None:
    inputs = () if x is None else (x, weight, bias)
    if (reason := kernel_reason(*inputs)) is not None:
        return reason
    if inputs and (kind is None or kind.itemsize != 2):
        return "torch's own operation gives the type of its input"
    if inputs and weight.numel() > WIDEST:
        return f"rows are wider than {WIDEST} features"
    reason = type_reason(*inputs, types=(torch.float32,)) or empty_reason(*inputs)
    return reason or triton_reason(KERNELS, *inputs)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float, kind: torch.dtype) -> Tensor:
        x = x.contiguous()
        y, means, scales = import_module(KERNELS).forward(x, weight, bias, epsilon, kind)
        ctx.save_for_backward(x, weight, bias, means, scales)
        ctx.options = epsilon, kind
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Any:
        x, weight, bias, means, scales = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: in torch's operations
            inputs = x, weight, bias, *ctx.options
            return tuple(second_order_gradients(lambda *v: (reference(*v),), inputs, ctx.needs_input_grad, (grad_y,)))
        return *import_module(KERNELS).backward(grad_y.contiguous(), x, weight, means, scales), None, None


LAYER_NORM = (
    Implementation("triton", _LayerNorm.apply, _triton_reason),
    Implementation("reference", reference),
)
