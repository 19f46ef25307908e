"""Logarithms whose infinities do not reach gradients, as they are masked before and after."""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch import Tensor

from regard.ops.autograd import apply
from regard.shapes import Float


def safe_log(probabilities: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """log p; where p is 0, -∞ with a gradient of zero instead of NaN.

    Numerics: subnormal numbers count as 0, as 1/p in the gradient would be infinite.

    >>> p = torch.tensor([1.0, 0.0], requires_grad=True)
    >>> safe_log(p)
    tensor([0., -inf], grad_fn=<MaskedFillBackward0>)
    >>> torch.autograd.grad(safe_log(p)[0] + safe_log(p)[1], p)[0]
    tensor([1., 0.])
    """
    # filled before the logarithm, so that 1/p is finite in the gradient, and after it with -∞
    zero = probabilities < torch.finfo(probabilities.dtype).tiny
    return probabilities.masked_fill(zero, 1.0).log().masked_fill(zero, -inf)


def log_add(a: Float[Tensor, "*rows"], b: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """log(exp a + exp b); where both are -∞, -∞ with gradients of zero instead of NaN.

    >>> log_add(torch.tensor([0.5, 0.0]).log(), torch.tensor([0.25, 0.0]).log())
    tensor([-0.2877,    -inf])
    """
    dead = (a == -inf) & (b == -inf)
    return torch.logaddexp(a.masked_fill(dead, 0.0), b.masked_fill(dead, 0.0)).masked_fill(dead, -inf)


def widen(x: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """Half types as float32, for a logarithm, with gradients clamped to a sixteenth of the largest half number.

    The gradient 1/x of a small weight may be beyond that number, and infinity times 0 in the next factor would be NaN.
    A sixteenth, as gradients of a weight from several parts are added.

    >>> x = torch.tensor([1e-6], dtype=torch.float16, requires_grad=True)
    >>> widen(x).log().backward()
    >>> x.grad
    tensor([4094.], dtype=torch.float16)
    """
    if x.element_size() >= 4:
        return x
    return apply(_Widen, _WidenWithTangents, x)


class _Widen(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.float()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.kind = inputs[0].dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        largest = torch.finfo(ctx.kind).max / 16
        return gradient.clamp(-largest, largest).to(ctx.kind)


class _WidenWithTangents(_Widen):
    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return tangent.float()
