"""y = x Wᵀ + b by oneDNN, forward and backward.

grad_x = grad_y W,  grad_W = grad_yᵀ x,  grad_b = Σ rows of grad_y
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.linear import onednn, reference
from regard.ops.precision import without_autocast


def refuse(x: Any = None, weight: Any = None, bias: Any = None) -> str | None:
    """Why oneDNN does not compute x Wᵀ and its gradients, or None."""
    with torch.no_grad():  # gradients are no obstacle here
        reason = onednn.refuse(x, weight, bias)
    if reason is None and x is not None and torch.is_autocast_enabled("cpu"):
        return "autocast asks for half types"
    return reason


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b."""
    y: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows, grad = x.flatten(0, -2), grad_y.flatten(0, -2)
        # create_graph: products that torch can differentiate again
        library = reference if torch.is_grad_enabled() else onednn
        with without_autocast("cpu"):
            return (
                library.linear(grad, weight.t()).view(x.shape) if of_x else None,
                library.outer(grad, rows) if of_weight else None,
                grad.sum(0) if of_bias else None,
            )
