"""A sublayer of a Transformer with its norm, dropout and residual connection as one node of the graph.

    first:  n = norm(x),  y = x + m ⊙ f(n)        grad_n = f'(m ⊙ grad_y),  grad_x = grad_y + norm'(grad_n)
    else:   s = x + m ⊙ f(x),  y = norm(s)        grad_s = norm'(grad_y),   grad_x = grad_s + f'(m ⊙ grad_s)

f is one of the `inner` functions of `feed_forward.py` and `attention.py`; it works on all positions as rows (M, D).
Products are oneDNN's (`ops.linear`), in both directions. Second derivatives are those of the reference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops import second_order
from regard.ops.precision import without_autocast

Tensors = Sequence[Any]


class AbstractInner(ABC):
    """A function f of rows n (M, D) and of further inputs, without state; a sublayer without what surrounds it."""

    @abstractmethod
    def forward(self, n: Tensor, lead: torch.Size, inputs: Tensors) -> tuple[Tensor, Tensors, Any]:
        """f(n) in memory of its own, tensors kept for the backward pass, and what else is.

        Args:
            lead: (B, T), with B · T = M.
        """

    @abstractmethod
    def backward(
        self,
        grad: Tensor,
        n: Tensor,
        lead: torch.Size,
        inputs: Tensors,
        kept: Tensors,
        extra: Any,
        needs: Sequence[bool],
    ) -> tuple[Tensor, list[Tensor | None]]:
        """The gradient of n, in memory of its own, and those of the inputs; it must not write on grad."""

    @abstractmethod
    def reference(self, around: Tensors, inputs: Tensors, **options: Any) -> Tensor:
        """The whole sublayer in torch's operations.

        Args:
            around: x, the weight and the bias of the norm, and m.
            options: `epsilon` and `norm_first`.
        """


def run(
    inner: AbstractInner,
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    mask: Tensor | None,
    inputs: Tensors,
    *,
    epsilon: float = 1e-5,
    norm_first: bool = True,
) -> Tensor:
    """The sublayer's output (B, T, D)."""
    given = (x, norm_weight, norm_bias, mask, *inputs)
    options = epsilon, norm_first
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in given):
        y: Tensor = _Sublayer.apply(inner, options, *given)  # type: ignore[no-untyped-call]
        return y
    return _forward(inner, options, given)[0]


def _forward(inner: AbstractInner, options: tuple[float, bool], given: Tensors) -> tuple[Tensor, Tensors, Any]:
    """The output, what is kept (of the norm four, then of f), and what else is."""
    x, weight, bias, mask, *inputs = given
    epsilon, norm_first = options
    rows = x.reshape(-1, x.shape[-1])
    lead, size = x.shape[:-1], x.shape[-1:]
    n = rows
    if norm_first:
        n, mean, rstd = torch.native_layer_norm(rows, size, weight, bias, epsilon)
    total, kept, extra = inner.forward(n, lead, inputs)
    if mask is None:
        total.add_(rows)
    else:
        torch.addcmul(rows, total, mask.reshape(rows.shape), out=total)
    y = total
    if not norm_first:
        y, mean, rstd = torch.native_layer_norm(total, size, weight, bias, epsilon)
    return y.view(x.shape), (n, rows if norm_first else total, mean, rstd, *kept), extra


class _Sublayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inner: AbstractInner, options: tuple[float, bool], *given: Any) -> Tensor:
        y, kept, ctx.extra = _forward(inner, options, given)
        ctx.inner, ctx.options, ctx.num_given = inner, options, len(given)
        ctx.save_for_backward(*given, *kept)
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Any:
        saved = ctx.saved_tensors  # unpacking them refuses what was changed in place since
        given, needs = saved[: ctx.num_given], ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():  # gradients that are to be differentiated themselves
            return None, None, *_differentiable(ctx, given, needs, grad_y)
        with without_autocast(grad_y.device.type):
            return None, None, *_backward(ctx, given, saved[ctx.num_given :], needs, grad_y)


def _backward(ctx: Any, given: Tensors, kept: Tensors, needs: Sequence[bool], grad_y: Tensor) -> list[Tensor | None]:
    kernels = import_module("regard.ops.sublayer.numba")
    x, weight, _, mask, *inputs = given
    n, normed, mean, rstd, *kept = kept
    norm_first = ctx.options[1]
    grad = grad_y.reshape(n.shape).contiguous()
    if not norm_first:
        grad, grad_weight, grad_bias = kernels.layer_norm_backward(grad, normed, mean, rstd, weight, None)
    grad_change = grad if mask is None else grad * mask.reshape(n.shape)
    lead = x.shape[:-1]
    grad_n, grads = ctx.inner.backward(grad_change, n, lead, inputs, kept, ctx.extra, needs[4:])
    if norm_first:
        grad_x, grad_weight, grad_bias = kernels.layer_norm_backward(grad_n, normed, mean, rstd, weight, grad)
    else:
        grad_x = grad_n.add_(grad)
    own = [grad_x.view(x.shape), grad_weight, grad_bias, None]
    return [gradient if need else None for gradient, need in zip([*own, *grads], needs, strict=True)]


def _differentiable(ctx: Any, given: Tensors, needs: Sequence[bool], grad_y: Tensor) -> list[Tensor | None]:
    """The gradients as a part of the graph."""
    epsilon, norm_first = ctx.options

    def sublayer(*given: Any) -> tuple[Tensor]:
        return (ctx.inner.reference(given[:4], given[4:], epsilon=epsilon, norm_first=norm_first),)

    return second_order.gradients(sublayer, given, needs, [grad_y])


def when(need: bool, gradient: Callable[[], Tensor]) -> Tensor | None:
    """A gradient if it is needed."""
    return gradient() if need else None
