"""Softmax over a support, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import refuse_kernels, refuse_numba
from regard.ops.softmax import reference
from regard.shapes import Bool, Float

MIN_ELEMENTS = 1 << 12
"""From so many numbers on a compiled loop is worth its call."""


def masked_softmax(
    energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None = None
) -> Float[Tensor, "*rows S"]:
    """w_s = exp(e_s) / Σ_{s' in support} exp(e_s'), exactly 0 outside the support.

    A row without support gives zero weights and zero gradient, never NaN. Half types are computed in float32.

    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]]))
    tensor([[1., 0.],
            [0., 0.]])
    """
    return choose(MASKED_SOFTMAX, energies, support).function(energies, support)


def _refuse_numba(*inputs: Any) -> str | None:
    if inputs and (len(inputs) < 2 or inputs[1] is None):
        return "torch's own softmax needs no mask"
    if (reason := refuse_kernels(*inputs)) is not None:
        return reason
    if inputs and inputs[0].numel() < MIN_ELEMENTS:
        return "there are too few numbers"
    return refuse_numba("regard.ops.softmax.numba", *inputs)


def _numba(energies: Tensor, support: Tensor | None = None) -> Tensor:
    working = energies.float() if energies.element_size() < 4 else energies
    if working.requires_grad and torch.is_grad_enabled():
        weights: Tensor = _Softmax.apply(working, support)  # type: ignore[no-untyped-call]
    else:
        weights = _weigh(working, support)
    return weights.to(energies.dtype)


def _kernels() -> Any:
    return import_module("regard.ops.softmax.numba")


def _weigh(energies: Tensor, support: Tensor | None) -> Tensor:
    # cloned: the kernel writes over its argument, which belongs to the caller
    return _kernels().weigh(energies.detach().clone(memory_format=torch.contiguous_format), support)


class _Softmax(torch.autograd.Function):
    """Keeps only the weights."""

    @staticmethod
    def forward(ctx: Any, energies: Tensor, support: Tensor | None) -> Tensor:
        weights = _weigh(energies, support)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (weights,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            # create_graph: the formula in torch's operations, so that the gradient can be differentiated again
            return reference.pull_back(gradient, weights), None
        # cloned: the kernel writes over its argument, which belongs to autograd
        return _kernels().pull_back(gradient.clone(memory_format=torch.contiguous_format), weights), None


MASKED_SOFTMAX = (
    Implementation("numba", _numba, _refuse_numba),
    Implementation("reference", reference.masked_softmax),
)
