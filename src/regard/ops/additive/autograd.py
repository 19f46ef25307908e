"""Gradients of additive energies, by the module of kernels that computed them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from regard.ops.additive import reference


def run(module: ModuleType, slope: float | None, *inputs: Tensor) -> Tensor:
    """The energies by a module of kernels, differentiable where any input requires a gradient."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return _Energies.apply(module, slope, *inputs)  # type: ignore[no-untyped-call]
    return module.energies(*inputs, slope)


class _Energies(torch.autograd.Function):
    """Keeps only the inputs; a second derivative is that of the reference."""

    @staticmethod
    def forward(ctx: Any, module: ModuleType, slope: float | None, query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.module, ctx.slope = module, slope
        ctx.save_for_backward(query, keys, v)
        return module.energies(query, keys, v, slope)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        inputs, needed = ctx.saved_tensors, ctx.needs_input_grad[2:]
        if not torch.is_grad_enabled():
            gradients = ctx.module.gradients(gradient, *inputs, ctx.slope)
            return None, None, *(x if need else None for x, need in zip(gradients, needed, strict=True))
        # create_graph: kernels leave no graph of the gradients, torch's own operations do
        pull_back: Any = torch.func.vjp(lambda query, keys, v: reference.energies(query, keys, v, ctx.slope), *inputs)[
            1
        ]
        return None, None, *pull_back(gradient)
