"""A block of steps at a time: energies, weights and what is read, and again in the backward pass.

Memory grows with T + S. Weights of all steps are kept only where they are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.ops.additive.operation import kernels_for
from regard.ops.additive_attention import reference
from regard.ops.choose import steps_for
from regard.ops.eligibility import refuse_autocast, refuse_empty, refuse_kernels, refuse_types
from regard.ops.precision import without_autocast

BLOCK, KEPT = 1 << 20, 1 << 22
"""Weights that are made at once, or those of one step; and those that may be kept for the backward pass."""


def refuse(*inputs: Any, **options: Any) -> str | None:
    """Why it cannot take some inputs, or None."""
    return refuse_kernels(*inputs) or refuse_types(*inputs) or refuse_autocast(*inputs[:1]) or refuse_empty(*inputs[:4])


def additive_attention(
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    sharpening: float = 1.0,
) -> Tensor:
    """As the reference."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in (query, keys, v, values)):
        found: Tensor = _Attention.apply(query, keys, v, values, mask, sharpening)  # type: ignore[no-untyped-call]
        return found
    return _attend(query, keys, v, values, mask, sharpening)[0]


class _Attention(torch.autograd.Function):
    """Keeps the inputs, and weights if they are few; a second derivative is that of the plain formula."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, keys: Tensor, v: Tensor, values: Tensor, mask: Tensor | None, sharpening: float
    ) -> Tensor:
        ctx.save_for_backward(query, keys, v, values)
        ctx.mask, ctx.sharpening = mask, sharpening
        few = query.shape[:3].numel() * keys.shape[1] <= KEPT
        context, ctx.weights = _attend(query, keys, v, values, mask, sharpening, keeps=few)
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            function = partial(reference.additive_attention, mask=ctx.mask, sharpening=ctx.sharpening)
            return *torch.func.vjp(function, *inputs)[1](gradient), None, None
        with torch.no_grad(), without_autocast(gradient.device.type):
            query, keys, v, values = inputs
            found = _pull_back(gradient, query, keys, v, values, ctx.mask, ctx.sharpening, ctx.weights)
            return *found, None, None


def _attend(
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    values: Tensor,
    mask: Tensor | None,
    sharpening: float,
    *,
    keeps: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """The context (B, T, H, V), and the weights of every block if they are kept."""
    context = query.new_empty(*query.shape[:3], values.shape[3])
    kept = []
    with torch.no_grad():
        for b, t in _blocks(query, keys):
            weights = _weigh(query[b, t], keys[b], v, None if mask is None else mask[b], sharpening)
            if keeps:
                kept.append(weights)
            context[b, t] = _by_head(torch.matmul(_grouped(weights, values), values[b].transpose(1, 2)), weights)
    return context, kept


def _pull_back(
    gradient: Tensor,
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    values: Tensor,
    mask: Tensor | None,
    sharpening: float,
    kept: list[Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """By query, keys, v and values."""
    energies, softmax = kernels_for(query.device.type), steps_for("softmax", query.device.type)
    grad_query = query.new_empty(query.shape)
    grad_keys, grad_v, grad_values = (x.new_zeros(x.shape) for x in (keys, v, values))
    for number, (b, t) in enumerate(_blocks(query, keys)):
        if kept:
            weights = kept[number]
        else:
            weights = _weigh(query[b, t], keys[b], v, None if mask is None else mask[b], sharpening)
        g = _grouped(gradient[b, t].transpose(1, 2), values)
        grouped = _grouped(weights, values)
        grad_values[b] += torch.matmul(grouped.mT, g).transpose(1, 2)
        grad_weights = torch.matmul(g, values[b].permute(0, 2, 3, 1)).view(weights.shape)
        grad_energies = softmax.pull_back(grad_weights, weights)
        if sharpening != 1.0:
            grad_energies.mul_(sharpening)
        found = energies.gradients(grad_energies, query[b, t], keys[b], v, None)
        grad_query[b, t] = found[0]
        grad_keys[b] += found[1]
        grad_v += found[2]
    return grad_query, grad_keys, grad_v, grad_values


def _weigh(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor | None, sharpening: float) -> Tensor:
    """(B, H, T, S)."""
    energies = kernels_for(query.device.type).energies(query, keys, v, None)
    if sharpening != 1.0:
        energies.mul_(sharpening)
    support = None if mask is None else mask[:, None, None]
    found: Tensor = steps_for("softmax", query.device.type).weigh(energies, support)
    return found


def _grouped(x: Tensor, values: Tensor) -> Tensor:
    """(B, H, T, ·) as (B, G, H / G · T, ·)."""
    return x.reshape(x.shape[0], values.shape[2], -1, x.shape[3])


def _by_head(read: Tensor, weights: Tensor) -> Tensor:
    """(B, G, H / G · T, V) as (B, T, H, V)."""
    return read.view(*weights.shape[:3], -1).transpose(1, 2)


def _blocks(query: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice]]:
    """Of sentences and steps."""
    sentences, steps, heads = query.shape[:3]
    each = heads * keys.shape[1]
    many, long = max(1, BLOCK // (each * steps)), max(1, BLOCK // each)
    for b in range(0, sentences, many):
        for t in range(0, steps, long):
            yield slice(b, b + many), slice(t, t + long)
