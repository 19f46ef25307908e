"""Gradients of location-sensitive energies by compiled loops."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops.location import additive


def run(*inputs: Tensor) -> Tensor:
    """The energies, differentiable where any input requires a gradient."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return _Energies.apply(*inputs)  # type: ignore[no-untyped-call]
    return _kernels().energies(*inputs)


def _kernels() -> Any:
    return import_module("regard.ops.location.numba")


class _Energies(torch.autograd.Function):
    """Keeps only the inputs; a second derivative is that of the plain operations."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return _kernels().energies(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if not torch.is_grad_enabled():
            return _kernels().gradients(gradient, *ctx.saved_tensors, grad_past=ctx.needs_input_grad[2])
        # create_graph: kernels leave no graph of the gradients, torch's own operations do
        return torch.func.vjp(additive.location_energies, *ctx.saved_tensors)[1](gradient)
