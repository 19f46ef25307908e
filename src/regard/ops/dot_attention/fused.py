"""By torch's fused kernels, which keep no weights: memory grows with T + S."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from regard.ops.dot_attention import reference
from regard.ops.eligibility import compiles, refuse_empty, refuse_kernels

WIDE, MANY = 128, 1 << 16
"""On the CPU, heads wider than this are better served by products of matrices until there are as many weights each."""


def refuse(*inputs: Any, **options: Any) -> str | None:
    """Why they cannot take some inputs, or None."""
    if not inputs:
        return None
    query, keys, values = inputs[:3]
    if not compiles() and (reason := refuse_kernels(*inputs)) is not None:
        return reason
    if not query.dtype == keys.dtype == values.dtype:
        return "query, keys and values are of different types"
    if keys.shape[3] != values.shape[3]:
        return f"the kernels want keys as wide as values, and these have {keys.shape[3]} and {values.shape[3]} features"
    if (reason := refuse_empty(query, keys, values)) is not None:
        return reason
    if query.device.type == "cpu" and keys.shape[3] > WIDE and query.shape[1] * keys.shape[1] < MANY:
        return f"heads of {keys.shape[3]} features and few weights are faster in plain products"
    return None


def dot_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    support: Tensor | None = None,
    *,
    scale: float = 1.0,
    causal: bool = False,
) -> Tensor:
    """As the reference."""
    if causal and support is not None:
        support, causal = support & support.new_ones(query.shape[1], keys.shape[1]).tril(), False
    asked = torch.is_grad_enabled() and any(x.requires_grad for x in (query, keys, values))
    if not asked or torch.compiler.is_compiling():
        return _attend(query, keys, values, support, scale, causal)
    found: Tensor = _Attention.apply(query, keys, values, support, scale, causal)  # type: ignore[no-untyped-call]
    return found


def _attend(query: Tensor, keys: Tensor, values: Tensor, support: Tensor | None, scale: float, causal: bool) -> Tensor:
    """Rows without support look everywhere, as not all kernels know them, and what they read is dropped."""
    heads = query.shape[2]
    if keys.shape[2] != values.shape[2]:
        keys, values = _spread(keys, heads), _spread(values, heads)
    dead = None if support is None else ~support.any(-1, keepdim=True)
    found: Tensor = scaled_dot_product_attention(
        query.transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=None if support is None or dead is None else (support | dead)[:, None],
        scale=scale,
        is_causal=causal,
        enable_gqa=keys.shape[2] != heads,
    ).transpose(1, 2)
    return found if dead is None else found.masked_fill(dead[..., None], 0)


def _spread(x: Tensor, heads: int) -> Tensor:
    """(B, S, G, ·) for every head, a view where G is 1."""
    if x.shape[2] == 1:
        return x.expand(-1, -1, heads, -1)
    return x.repeat_interleave(heads // x.shape[2], 2)


class _Attention(torch.autograd.Function):
    """Keeps a graph of its own, since the kernels have no second derivative; that is the plain formula's."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, *options: Any) -> Tensor:
        inputs = query, keys, values
        ctx.options = options
        ctx.save_for_backward(*inputs)
        leaves = [x.detach().requires_grad_(asked) for x, asked in zip(inputs, ctx.needs_input_grad, strict=False)]
        with torch.enable_grad():
            found = _attend(leaves[0], leaves[1], leaves[2], *options)
        ctx.graph = found, leaves
        return found.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        nothing = None, None, None
        if not torch.is_grad_enabled():
            found, leaves = ctx.graph
            wanted = [x for x in leaves if x.requires_grad]
            gradients = iter(torch.autograd.grad(found, wanted, gradient, retain_graph=True))
            return *(next(gradients) if x.requires_grad else None for x in leaves), *nothing
        support, scale, causal = ctx.options
        function = partial(reference.dot_attention, support=support, scale=scale, causal=causal)
        return *torch.func.vjp(function, *ctx.saved_tensors)[1](gradient), *nothing
