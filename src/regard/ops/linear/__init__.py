"""Products with a weight matrix by the fastest library that takes them."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from regard.ops import over_steps
from regard.ops.choose import Implementation, choose
from regard.ops.linear import autograd, onednn, reference, shared
from regard.shapes import Float

LINEAR = (
    Implementation("onednn", onednn.linear, onednn.refuse),
    Implementation("onednn, with gradients", autograd.linear, autograd.refuse),
    Implementation("reference", reference.linear),
)
OUTER = (Implementation("onednn", onednn.outer, onednn.refuse_outer), Implementation("reference", reference.outer))


def linear(
    x: Float[Tensor, "*rows K"],
    weight: Float[Tensor, "N K"],
    bias: Float[Tensor, " N"] | None = None,
    *,
    bfloat16: bool = False,
) -> Float[Tensor, "*rows N"]:
    """x Wᵀ + b.

    Args:
        bfloat16: round x and W to bfloat16, and their product before the bias is added; for float32 without autograd.

    >>> linear(torch.ones(2, 3), torch.ones(1, 3))
    tensor([[3.],
            [3.]])
    """
    if bfloat16:
        return shared.rounded(partial(reference.linear, weight=weight.bfloat16()), x, bias)
    if (loop := over_steps.current(x, weight)) is not None:
        if loop.collects and weight.requires_grad and shared.pays(x, weight):
            return shared.linear(loop, x, weight, bias)
        if not loop.collects and shared.packs(loop, x, weight):
            return loop.shared(shared.PackedProduct, weight, as_bytes=loop.stores_bytes)(x, bias)
    is_small = not onednn.IS_WIDE or x.numel() * weight.shape[0] < onednn.MIN_WORK
    if torch.compiler.is_compiling() or not x.is_cpu or is_small:
        return reference.linear(x, weight, bias)
    return choose(LINEAR, x, weight, bias).function(x, weight, bias)


def outer(left: Float[Tensor, "M N"], right: Float[Tensor, "M K"], *, bfloat16: bool = False) -> Float[Tensor, "N K"]:
    """Σ_m left_mn right_mk: grad_W from grad_y (M, N) and x (M, K); without autograd."""
    if bfloat16:
        return (left.bfloat16().t() @ right.bfloat16()).float()
    return choose(OUTER, left, right).function(left, right)
