"""Attention by dot products in torch's fused kernels, which keep no weights: memory grows with T + S.

    c_t = Σ_s α_ts v_s,  α_t = softmax(scale · q_t k_sᵀ) over the support

The kernels want heads before steps, (B, H, T, D), and some of them give NaN for a query without support.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from regard.ops.dot_attention import reference
from regard.ops.eligibility import compiles, refuse_empty, refuse_kernels

WIDE, MIN_PAIRS = 128, 1 << 16
"""On the CPU, heads wider than this are better served by products of matrices until there are as many weights each."""


def refuse(*inputs: Any, **options: Any) -> str | None:
    """Why the kernels cannot take some inputs, or None."""
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
    if query.device.type == "cpu" and keys.shape[3] > WIDE and query.shape[1] * keys.shape[1] < MIN_PAIRS:
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
    differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in (query, keys, values))
    # a compiler differentiates the kernels itself
    if not differentiable or torch.compiler.is_compiling():
        return attend(query, keys, values, support, scale, causal)
    return _Attention.apply(query, keys, values, support, scale, causal)  # type: ignore[no-untyped-call]


def attend(query: Tensor, keys: Tensor, values: Tensor, support: Tensor | None, scale: float, causal: bool) -> Tensor:
    """The context (B, T, H, V). A query without support attends everywhere, and its context is set to 0."""
    if causal and support is not None:
        # torch does not promise to take a mask and the causal one: the triangle joins the support
        support, causal = support & support.new_ones(query.shape[1], keys.shape[1]).tril(), False
    # `enable_gqa` shares keys and values alike; where their groups differ, both are repeated for every head
    heads = query.shape[2]
    if keys.shape[2] != values.shape[2]:
        keys, values = _for_heads(keys, heads), _for_heads(values, heads)
    # (B, T, 1); softmax over no position would be NaN in some kernels, and so would the gradients
    dead = None if support is None else ~support.any(-1, keepdim=True)
    context: Tensor = scaled_dot_product_attention(
        query.transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=None if support is None or dead is None else (support | dead)[:, None],
        scale=scale,
        is_causal=causal,
        enable_gqa=keys.shape[2] != heads,
    ).transpose(1, 2)
    return context if dead is None else context.masked_fill(dead[..., None], 0)


def _for_heads(x: Tensor, heads: int) -> Tensor:
    """(B, S, G, ·) for every head, a view where G is 1."""
    if x.shape[2] == 1:
        return x.expand(-1, -1, heads, -1)
    return x.repeat_interleave(heads // x.shape[2], 2)


class _Attention(torch.autograd.Function):
    """Keeps the graph of the kernels inside; a second derivative, which they lack, is the plain formula's."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, *options: Any) -> Tensor:
        inputs = query, keys, values
        ctx.options = options
        ctx.save_for_backward(*inputs)
        # torch's graph from detached leaves to the context: `backward` runs it, whichever kernel torch has chosen
        leaves = [x.detach().requires_grad_(need) for x, need in zip(inputs, ctx.needs_input_grad, strict=False)]
        with torch.enable_grad():
            context = attend(leaves[0], leaves[1], leaves[2], *options)
        ctx.graph = context, leaves
        return context.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        for_options = None, None, None
        if not torch.is_grad_enabled():
            context, leaves = ctx.graph
            needed = [x for x in leaves if x.requires_grad]
            # retained: the outer graph may run backward again, and this one cannot know
            gradients = iter(torch.autograd.grad(context, needed, gradient, retain_graph=True))
            return *(next(gradients) if x.requires_grad else None for x in leaves), *for_options
        support, scale, causal = ctx.options
        function = partial(reference.dot_attention, support=support, scale=scale, causal=causal)
        return *torch.func.vjp(function, *ctx.saved_tensors)[1](gradient), *for_options
