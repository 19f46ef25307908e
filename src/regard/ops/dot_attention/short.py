"""Attention of short sequences: compiled loops that keep the weights, which are few."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops.dot_attention import reference
from regard.ops.eligibility import (
    refuse_autocast,
    refuse_device,
    refuse_empty,
    refuse_kernels,
    refuse_numba,
    refuse_types,
)

MODULE = "regard.ops.dot_attention.numba"
MAX_PAIRS = 1 << 10
"""Up to so many pairs of a step and a position in a sentence, loops are faster than torch's blocks of products."""
MIN_SIZE, MAX_SIZE = 32, 128
"""Heads of these widths."""


def refuse(*inputs: Any, **options: Any) -> str | None:
    """Why the loops cannot take some inputs, or None."""
    if not inputs:
        return refuse_numba(MODULE)
    query, keys, values = inputs[:3]
    if (
        reason := refuse_kernels(*inputs)
        or refuse_device("cpu", *inputs[:4])
        or refuse_types(query, keys, values)
        or refuse_autocast(query)
        or refuse_empty(query, keys, values)
    ):
        return reason
    if keys.shape[2] != values.shape[2]:
        return (
            f"keys and values are shared by as many heads there, and these have {keys.shape[2]} and {values.shape[2]}"
        )
    return refuse_sizes(query.shape[1], keys.shape[1], keys.shape[3]) or refuse_numba(MODULE, query)


def refuse_sizes(steps: int, positions: int, size: int) -> str | None:
    """Why sequences of these lengths are not short, or why heads of this width want products."""
    if steps * positions > MAX_PAIRS:
        return f"the sequences are long: {steps} · {positions} weights a head"
    return None if MIN_SIZE <= size <= MAX_SIZE else f"heads of {size} features are faster in products"


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
    if torch.is_grad_enabled() and any(x.requires_grad for x in (query, keys, values)):
        return _Attention.apply(query, keys, values, support, scale, causal)  # type: ignore[no-untyped-call]
    return _attend(query, keys, values, support, scale, causal)[0]


def columns(x: Tensor) -> Any:
    """(B, S, H, D) as columns of a matrix; copied if it has gaps."""
    return import_module(MODULE).Columns(x.detach().contiguous().flatten(2), 0, *x.shape[2:])


def supported(support: Tensor | None, rows: int, steps: int, positions: int) -> Tensor | None:
    """The support (B, T, S)."""
    return None if support is None else support.expand(rows, steps, positions)


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, support: Tensor | None, scale: float, causal: bool
) -> tuple[Tensor, Tensor]:
    """The context (B, T, H, V) and the weights (B, H, T, S)."""
    rows, steps, heads, _ = query.shape
    positions, width = keys.shape[1], values.shape[3]
    context = query.new_empty(rows, steps, heads * width)
    weights = query.new_empty(rows, heads, steps, positions)
    seen = supported(support, rows, steps, positions)
    import_module(MODULE).attend(
        columns(query), columns(keys), columns(values), seen, scale=scale, causal=causal, context=context,
        weights=weights,
    )  # fmt: skip
    return context.unflatten(2, (heads, width)), weights


class _Attention(torch.autograd.Function):
    """Keeps the inputs and the weights; a second derivative is that of the plain formula."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, *options: Any) -> Tensor:
        ctx.options = options
        context, weights = _attend(query, keys, values, *options)
        ctx.save_for_backward(query, keys, values, weights)
        return context

    @staticmethod
    def backward(ctx: Any, grad_context: Tensor) -> Any:
        for_options = None, None, None
        *inputs, weights = ctx.saved_tensors
        support, scale, causal = ctx.options
        if torch.is_grad_enabled():
            function = partial(reference.dot_attention, support=support, scale=scale, causal=causal)
            return *torch.func.vjp(function, *inputs)[1](grad_context), *for_options
        gradients = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs]
        import_module(MODULE).attend_backward(
            grad_context.contiguous().flatten(2),
            *map(columns, inputs),
            weights,
            *(_into(gradient) for gradient in gradients),
            scale=scale,
            causal=causal,
        )
        return *gradients, *for_options


def _into(gradient: Tensor) -> Any:
    return import_module(MODULE).Columns(gradient.view(*gradient.shape[:2], -1), 0, *gradient.shape[2:])
