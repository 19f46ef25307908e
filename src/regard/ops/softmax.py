"""Softmax, hardmax and log-probabilities, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import empty_reason, kernel_reason, numba_reason, type_reason
from regard.shapes import Bool, Float

MODULE = "regard.ops.kernels.softmax"
MIN_ELEMENTS = 1 << 12
"""The fewest numbers for which a compiled loop is faster."""


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


def _numba_reason(*inputs: Any) -> str | None:
    if inputs and (len(inputs) < 2 or inputs[1] is None):
        return "torch's own softmax needs no mask"
    if (reason := kernel_reason(*inputs)) is not None:
        return reason
    if inputs and inputs[0].numel() < MIN_ELEMENTS:
        return "there are too few numbers"
    return numba_reason(MODULE, *inputs)


def _numba(energies: Tensor, support: Tensor | None = None) -> Tensor:
    working = energies.float() if energies.element_size() < 4 else energies
    if working.requires_grad and torch.is_grad_enabled():
        weights: Tensor = _Softmax.apply(working, support)  # type: ignore[no-untyped-call]
    else:
        weights = _weigh(working, support)
    return weights.to(energies.dtype)


def _kernels() -> Any:
    return import_module(MODULE)


def _weigh(energies: Tensor, support: Tensor | None) -> Tensor:
    # cloned, as the kernel overwrites its argument
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
            return pull_back(gradient, weights), None
        # cloned, as the kernel overwrites its argument
        return _kernels().pull_back(gradient.clone(memory_format=torch.contiguous_format), weights), None


def reference(
    energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None = None
) -> Float[Tensor, "*rows S"]:
    """As `masked_softmax`, in torch's operations."""
    working = energies.float() if energies.element_size() < 4 else energies
    if support is None:
        return working.softmax(-1).to(energies.dtype)
    # the softmax of a row without support is NaN; the second mask keeps it out of weights and gradients
    outside = ~support
    weights = working.masked_fill(outside, float("-inf")).softmax(-1)
    return weights.masked_fill(outside, 0.0).to(energies.dtype)


weigh = reference


def pull_back(gradient: Tensor, weights: Tensor) -> Tensor:
    """grad_e = w (grad_w - Σ w grad_w): the gradient of the energies from that of the weights."""
    return weights * (gradient - (weights * gradient).sum(-1, keepdim=True))


MASKED_SOFTMAX = (
    Implementation("numba", _numba, _numba_reason),
    Implementation("reference", reference),
)


def hardmax(
    energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None = None
) -> Float[Tensor, "*rows S"]:
    """1 at the largest energy of the support, the first of equal ones, 0 elsewhere; zeros in a row without support.

    There is no gradient.

    >>> hardmax(torch.tensor([[1.0, 2.0, 2.0]]))
    tensor([[0., 1., 0.]])
    """
    if energies.shape[-1] == 0:
        return torch.zeros_like(energies)
    confined = confine(energies.detach(), support)
    # argmax is one position, also among equal energies; in a row of only -∞ it has no support
    first = torch.arange(energies.shape[-1], device=energies.device) == confined.argmax(-1, keepdim=True)
    return (first & ~confined.isneginf()).to(energies.dtype)


def _log_softmax_reason(logits: Any = None) -> str | None:
    if logits is not None and (logits.dim() != 2 or not logits.is_contiguous()):
        return "logits are not contiguous (R, N)"
    if logits is not None and logits.requires_grad:
        return "gradients are required"
    return numba_reason(MODULE, logits) or type_reason(logits) or empty_reason(logits) or kernel_reason(logits)


LOG_SOFTMAX = (
    Implementation("numba", loaded(MODULE, "log_softmax"), _log_softmax_reason),
    Implementation("reference", partial(Tensor.log_softmax, dim=-1)),
)


def log_softmax(logits: Float[Tensor, "*rows N"]) -> Float[Tensor, "*rows N"]:
    """x_n - log Σ_m exp(x_m), without autograd. May overwrite the logits.

    >>> import torch
    >>> log_softmax(torch.zeros(1, 4)).exp()
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    return choose(LOG_SOFTMAX, logits).function(logits)


def confine(energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None) -> Float[Tensor, "*rows S"]:
    """Energies in float32 or wider, -∞ outside the support."""
    working = energies.float() if energies.element_size() < 4 else energies
    return working if support is None else working.masked_fill(~support, float("-inf"))


def descend(energies: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows S"]:
    """Energies minus the largest of their row; a row of only -∞ is unchanged."""
    top = energies.amax(-1, keepdim=True)
    return energies - top.masked_fill(top.isneginf(), 0.0)  # -∞ - (-∞) would be NaN
