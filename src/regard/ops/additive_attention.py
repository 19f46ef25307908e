"""Additive attention: energies, softmax and weighted sum, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.ops.additive import few_reason, kernels_for, plain_energies
from regard.ops.autograd import without_autocast
from regard.ops.choose import Implementation, choose, steps_for
from regard.ops.eligibility import autocast_reason, empty_reason, kernel_reason, type_reason
from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float, describe


def additive_attention(
    query: Float[Tensor, "B T H D"],
    keys: Float[Tensor, "B S H D"],
    v: Float[Tensor, "H D"],
    values: Float[Tensor, "B S G V"],
    mask: Bool[Tensor, "B S"] | None = None,
    *,
    sharpening: float = 1.0,
) -> Float[Tensor, "B T H V"]:
    """c_t = Σ_s α_ts h_s with α = softmax(β v · tanh(q_t + k_s)) over the mask; adjacent heads share values.

    A sentence whose mask is all False has contexts of zeros.

    Args:
        sharpening: β.

    Raises:
        ShapeError: for sizes that disagree.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), equations 5 and 6, with everything already projected.

    >>> import torch
    >>> query, keys, values = torch.zeros(1, 2, 4, 3), torch.zeros(1, 5, 4, 3), torch.ones(1, 5, 1, 6)
    >>> additive_attention(query, keys, torch.ones(4, 3), values).shape
    torch.Size([1, 2, 4, 6])
    """
    if (
        {query.dim(), keys.dim(), values.dim()} != {4}
        or not len(query) == len(keys) == len(values)
        or keys.shape[1] != values.shape[1]
        or not query.shape[2:] == keys.shape[2:] == v.shape
        or values.shape[2] < 1
        or query.shape[2] % values.shape[2]
    ):
        named = {"query": ("B T H D", query), "keys": ("B S H D", keys), "v": ("H D", v), "values": ("B S G V", values)}
        raise ShapeError(f"The inputs must agree on B, S, H and D, and G must divide H.\n{describe(named)}")
    implementation = choose(ADDITIVE_ATTENTION, query, keys, v, values, mask)
    return implementation.function(query, keys, v, values, mask, sharpening=sharpening)


def reference(
    query: Float[Tensor, "B T H D"],
    keys: Float[Tensor, "B S H D"],
    v: Float[Tensor, "H D"],
    values: Float[Tensor, "B S G V"],
    mask: Bool[Tensor, "B S"] | None = None,
    *,
    sharpening: float = 1.0,
) -> Float[Tensor, "B T H V"]:
    """The formula of `additive_attention`: T·S·D hyperbolic tangents, and as many numbers in memory, per sentence."""
    energies = sharpening * plain_energies(query, keys, v, None)  # (B, H, T, S)
    weights = masked_softmax(energies, None if mask is None else mask[:, None, None])
    # n adjacent heads share values: (B, G, n, T, S) × (B, S, G, V) to (B, T, G, n, V)
    context = torch.einsum("bgnts,bsgv->btgnv", weights.unflatten(1, (values.shape[2], -1)), values)
    return context.flatten(2, 3)


BLOCK_ELEMENTS, SAVED_ELEMENTS = 1 << 20, 1 << 22
"""The most weights of a block, which has at least one step; the most that are kept for the backward pass."""


def unsupported_reason(*inputs: Any, **options: Any) -> str | None:
    """Why blocks cannot be taken for some inputs, or None."""
    return (
        kernel_reason(*inputs)
        or few_reason(*inputs[:2])
        or type_reason(*inputs)
        or autocast_reason(*inputs[:1])
        or empty_reason(*inputs[:4])
    )


def in_blocks(
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    sharpening: float = 1.0,
) -> Tensor:
    """As the reference, in blocks of sentences or of steps of a long one, so that memory grows with T + S."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in (query, keys, v, values)):
        return _AdditiveAttention.apply(query, keys, v, values, mask, sharpening)  # type: ignore[no-untyped-call]
    return _attend(query, keys, v, values, mask, sharpening)[0]


class _AdditiveAttention(torch.autograd.Function):
    """Keeps the inputs, and few weights; many are computed again in the backward pass, block by block.

        e_ts = v · tanh(q_t + k_s),  α_t = softmax(β e_t) over the mask,  c_t = Σ_s α_ts h_s
        grad_h_s = Σ_t α_ts grad_c_t,  grad_α_ts = h_s · grad_c_t,
        grad_e_ts = β α_ts (grad_α_ts - Σ_i α_ti grad_α_ti), then grad_q, grad_k and grad_v of the energies

    A second derivative is that of the plain formula.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, keys: Tensor, v: Tensor, values: Tensor, mask: Tensor | None, sharpening: float
    ) -> Tensor:
        ctx.save_for_backward(query, keys, v, values)
        ctx.mask, ctx.sharpening = mask, sharpening
        few = query.shape[:3].numel() * keys.shape[1] <= SAVED_ELEMENTS
        context, ctx.weights = _attend(query, keys, v, values, mask, sharpening, keeps=few)
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            # create_graph: kernels leave no graph of the gradients, torch's own operations do
            function = partial(reference, mask=ctx.mask, sharpening=ctx.sharpening)
            return *torch.func.vjp(function, *inputs)[1](gradient), None, None
        with torch.no_grad(), without_autocast(gradient.device.type):
            query, keys, v, values = inputs
            gradients = _pull_back(gradient, query, keys, v, values, ctx.mask, ctx.sharpening, ctx.weights)
            return *gradients, None, None


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
            # rows of heads that share values are stacked: (B, G, H/G · t, S) × (B, G, S, V)
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
    """The gradients of query, keys, v and values, from that of the context (B, T, H, V)."""
    energies, softmax = kernels_for(query.device.type), steps_for("softmax", query.device.type)
    # a block writes the gradient of its steps of q, and adds to those of its sentences' k and values, and of v
    grad_query = query.new_empty(query.shape)
    grad_keys, grad_v, grad_values = (x.new_zeros(x.shape) for x in (keys, v, values))
    for number, (b, t) in enumerate(_blocks(query, keys)):
        if kept:
            weights = kept[number]
        else:
            weights = _weigh(query[b, t], keys[b], v, None if mask is None else mask[b], sharpening)
        # grad_c and α by the values that heads share, (B, G, H/G · t, V) and (B, G, H/G · t, S)
        g = _grouped(gradient[b, t].transpose(1, 2), values)
        grouped = _grouped(weights, values)
        # grad_h = αᵀ grad_c (B, G, S, V), grad_α = grad_c hᵀ (B, H, t, S); grad_e may take the place of grad_α
        grad_values[b] += torch.matmul(grouped.mT, g).transpose(1, 2)
        grad_weights = torch.matmul(g, values[b].permute(0, 2, 3, 1)).view(weights.shape)
        grad_energies = softmax.pull_back(grad_weights, weights)
        if sharpening != 1.0:
            grad_energies.mul_(sharpening)
        of_query, of_keys, of_v = energies.gradients(grad_energies, query[b, t], keys[b], v, None)
        grad_query[b, t] = of_query
        grad_keys[b] += of_keys
        grad_v += of_v
    return grad_query, grad_keys, grad_v, grad_values


def _weigh(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor | None, sharpening: float) -> Tensor:
    """The weights (B, H, T, S), written over the energies."""
    energies = kernels_for(query.device.type).energies(query, keys, v, None)
    if sharpening != 1.0:
        energies.mul_(sharpening)
    support = None if mask is None else mask[:, None, None]
    return steps_for("softmax", query.device.type).weigh(energies, support)


def _grouped(x: Tensor, values: Tensor) -> Tensor:
    """(B, H, T, ·) as (B, G, H / G · T, ·): adjacent heads share values."""
    return x.reshape(x.shape[0], values.shape[2], -1, x.shape[3])


def _by_head(contexts: Tensor, weights: Tensor) -> Tensor:
    """(B, G, H / G · T, V) as (B, T, H, V)."""
    return contexts.view(*weights.shape[:3], -1).transpose(1, 2)


def _blocks(query: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice]]:
    """Slices of sentences and of steps: whole sentences while `BLOCK_ELEMENTS` allows one, else steps of one."""
    sentences, steps, heads = query.shape[:3]
    each = heads * keys.shape[1]
    num_sentences, num_steps = max(1, BLOCK_ELEMENTS // (each * steps)), max(1, BLOCK_ELEMENTS // each)
    for b in range(0, sentences, num_sentences):
        for t in range(0, steps, num_steps):
            yield slice(b, b + num_sentences), slice(t, t + num_steps)


ADDITIVE_ATTENTION = (
    Implementation("blocks", in_blocks, unsupported_reason),
    Implementation("reference", reference),
)
