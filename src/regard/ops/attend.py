"""Attention in one step: energies, softmax over the memory's positions, and the sum of its values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.ops import half, over_steps
from regard.ops.additive import additive_energies
from regard.ops.autograd import second_order_gradients, without_autocast
from regard.ops.choose import loaded
from regard.ops.eligibility import FLOATS, autocast_reason, compiled_reason
from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float, merge_rows, num_hypotheses

KERNELS = "regard.ops.kernels.attend"

_unsupported_reason = partial(compiled_reason, KERNELS)


def attend(
    query: Float[Tensor, "R H D"],
    keys: Float[Tensor, "B S G D"],
    values: Float[Tensor, "B S P V"],
    mask: Bool[Tensor, "B S"] | None = None,
    v: Float[Tensor, "H D"] | None = None,
    *,
    sharpening: float = 1.0,
) -> tuple[Float[Tensor, "R HV"], Float[Tensor, "R H S"]]:
    """c_r = Σ_s α_rs h_s with α = softmax(β e) over the mask: the contexts of all heads, concatenated, and α.

    e_s = q · k_s or, with v, e_s = v · tanh(q + k_s). R / B rows read the memory of one sentence; adjacent heads share
    keys and values. A sentence whose mask is all False gives zeros. In a loop (`over_steps`) the gradients of the
    memory are computed after all steps.

    Args:
        query, keys: already projected; G divides H and is H with v.
        values: P divides H.
        sharpening: β.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), equations 5 and 6; Luong, Pham & Manning 2015
    (arXiv 1508.04025), equations 7 and 8.

    >>> context, weights = attend(torch.zeros(2, 1, 5), torch.zeros(2, 4, 1, 5), torch.ones(2, 4, 1, 3))
    >>> context.shape, weights.shape
    (torch.Size([2, 3]), torch.Size([2, 1, 4]))
    """
    loop = over_steps.current(query, keys, values)
    inputs = query, keys, values, mask, v
    if loop is not None and query.dtype == keys.dtype and loop.shared(_unsupported_reason, keys, values, v) is None:
        return _in_loop(loop, *inputs, sharpening)
    return reference(*inputs, sharpening)


def reference(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, v: Tensor | None, sharpening: float
) -> tuple[Tensor, Tensor]:
    """The plain formula."""
    rows = num_hypotheses(query.shape[0], keys.shape[0]), query.shape[1]
    if v is not None:
        energies = additive_energies(query.reshape(keys.shape[0], *rows, query.shape[2]), keys, v).transpose(1, 2)
    else:
        energies = dot_energies(query, keys).view(keys.shape[0], *rows, keys.shape[1])
    support = None if mask is None else mask[:, None, None]
    weights = masked_softmax(energies * sharpening if sharpening != 1.0 else energies, support).flatten(0, 1)
    return weighted_sum(weights, values), weights


def dot_energies(query: Float[Tensor, "R H D"], keys: Float[Tensor, "B S G D"]) -> Float[Tensor, "R H S"]:
    """q · k for every head, without tiling the memory; with G < H, adjacent heads share a key."""
    energies = torch.einsum("bkgnd,bsgd->bkgns", _grouped(query, keys), keys)
    return merge_rows(energies).reshape(*query.shape[:2], keys.shape[1])


class SharedMemory(over_steps.Shared):
    """Keys, values, mask and v as kernels read them; their gradients are those of all steps."""

    def __init__(self, keys: Tensor, values: Tensor, mask: Tensor | None, v: Tensor | None) -> None:
        shapes = keys.shape, values.shape
        super().__init__((keys, values, mask, v), partial(_sums, shapes, None if v is None else v.detach()))
        self.kernels = loaded(KERNELS, "StepMemory")(keys, values, mask, v)


def _sums(
    shapes: tuple[torch.Size, torch.Size], v: Tensor | None, factors: Sequence[Sequence[Tensor]]
) -> Sequence[Tensor | None]:
    """grad_h_s = Σ_t α_ts grad_c_t and, of dot energies, grad_k_s = Σ_t grad_e_ts q_t, each as one product."""
    of_keys, of_values = shapes
    weights, contexts, *others = zip(*factors, strict=True)
    grad_values = _product(weights, contexts, of_values)
    if v is None:
        return _product(others[0], others[1], of_keys), grad_values, None, None
    grad_keys, grad_v = others[0][0], others[1][0]  # sums over steps
    return grad_keys.mul_(4 * v), grad_values, None, grad_v.sum(0)


def _product(weights: Sequence[Tensor], rows: Sequence[Tensor], shape: torch.Size) -> Tensor:
    """Σ_t w_ts x_t (B, S, G, D) of weights (R, H, S) and rows (R, H·D) of each step."""
    sentences, positions, groups, size = shape
    heads = weights[0].shape[1]
    w, x = (
        torch.cat([x.reshape(sentences, len(x) // max(sentences, 1), groups, heads // groups, n) for x in parts], 1)
        for parts, n in ((weights, positions), (rows, size))
    )
    return torch.matmul(w.transpose(1, 2).flatten(2, 3).mT, x.transpose(1, 2).flatten(2, 3)).transpose(1, 2)


def _in_loop(
    loop: over_steps.Loop,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    v: Tensor | None,
    sharpening: float,
) -> tuple[Tensor, Tensor]:
    shared = loop.shared(SharedMemory, keys, values, mask, v)
    result: tuple[Tensor, Tensor] = over_steps.apply(_Attend, shared, sharpening, query, *shared.handles)
    return result


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shared: SharedMemory, sharpening: float, query: Tensor, *memory: Any) -> Any:
        ctx.shared, ctx.sharpening = (shared.uses, shared.kernels), sharpening
        context, weights = shared.kernels.forward(query.contiguous(), sharpening)
        ctx.save_for_backward(weights, query, *memory)
        ctx.set_materialize_grads(False)
        return context, weights

    @staticmethod
    def backward(ctx: Any, grad_context: Tensor | None, grad_weights: Tensor | None) -> Any:
        weights, query, keys, values, mask, v = ctx.saved_tensors
        if grad_context is None and grad_weights is None:
            return (None,) * 7
        if torch.is_grad_enabled():
            needs = ctx.needs_input_grad[2:]
            inputs = query, keys, values, mask, v, ctx.sharpening
            grads = second_order_gradients(reference, inputs, (*needs, False), (grad_context, grad_weights))
            return None, None, *grads[:-1]
        uses, kernels = ctx.shared
        if grad_context is None:
            grad_context = query.new_zeros(query.shape[0], query.shape[1] * values.shape[3])
        grad_context, query = grad_context.contiguous(), query.contiguous()
        factors = uses.factors
        sums = factors[0][2:] if factors and v is not None else kernels.sums()
        grad_query, grad_energies = kernels.backward(query, weights, grad_context, grad_weights, ctx.sharpening, sums)
        of_keys = (grad_energies, query.flatten(1)) if v is None else sums
        factors.append((weights, grad_context, *of_keys))
        return None, None, grad_query, *(None,) * 4


def weighted_sum(weights: Float[Tensor, "R H S"], values: Float[Tensor, "B S P V"]) -> Float[Tensor, "R HV"]:
    """Σ_s α_rs h_s of all heads, concatenated; R / B rows read one sentence, adjacent heads share values.

    >>> weighted_sum(torch.ones(2, 1, 4), torch.ones(2, 4, 1, 3))
    tensor([[4., 4., 4.],
            [4., 4., 4.]])
    """
    loop = over_steps.current(weights, values) if values.requires_grad else None
    if loop is not None and (copies := half.current()) is not None:
        weights, values = weights.to(copies.kind), loop.shared(_as, values, kind=copies.kind)
    is_kept = values.dtype not in FLOATS or autocast_reason(values) is None  # autocast changes no half types
    if loop is not None and is_kept and weights.dtype == values.dtype and not values.is_meta:
        shared = loop.shared(SharedValues, values)
        context: Tensor = over_steps.apply(_WeightedSum, shared.uses, weights, *shared.handles)
        return context
    return _sum(weights, values)


def _as(x: Tensor, *, kind: torch.dtype) -> Tensor:
    return x.to(kind)


def _sum(weights: Tensor, values: Tensor) -> Tensor:
    if values.shape[2] == 1 and not torch.compiler.is_compiling():  # compiled programs take any number of rows
        # all rows and heads of a sentence share its values: (B, K·H, S) × (B, S, V)
        context = torch.bmm(_of_sentences(weights, values), values.squeeze(2))
        return context.view(weights.shape[0], weights.shape[1] * values.shape[3])
    # n adjacent heads share values, K rows a sentence: (B, K, G, n, S) × (B, S, G, V) to (B, K, G, n, V)
    context = torch.einsum("bkgns,bsgv->bkgnv", _grouped(weights, values), values)
    return merge_rows(context).reshape(weights.shape[0], weights.shape[1] * values.shape[3])


def _of_sentences(rows: Tensor, values: Tensor) -> Tensor:
    """(R, H, N) as (B, K·H, N)."""
    return rows.reshape(values.shape[0], rows.shape[1] * num_hypotheses(rows.shape[0], values.shape[0]), rows.shape[2])


def _grouped(rows: Tensor, memory: Tensor) -> Tensor:
    """(R, H, N) as (B, K, G, H / G, N), for a memory (B, S, G, ·) that adjacent heads share."""
    shared = rows.reshape(memory.shape[0], num_hypotheses(rows.shape[0], memory.shape[0]), *rows.shape[1:])
    return shared.unflatten(2, (memory.shape[2], rows.shape[1] // memory.shape[2]))


class SharedValues(over_steps.Shared):
    """The values of all steps of a loop."""

    def __init__(self, values: Tensor) -> None:
        super().__init__((values,), partial(_of_values, values.shape))


def _of_values(shape: torch.Size, factors: Sequence[Sequence[Tensor]]) -> Sequence[Tensor]:
    weights, contexts = zip(*factors, strict=True)
    return (_product(weights, contexts, shape),)


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, uses: over_steps.Uses, weights: Tensor, values: Tensor) -> Tensor:
        ctx.uses = uses
        ctx.save_for_backward(weights, values)
        return _sum(weights, values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        weights, values = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, *second_order_gradients(
                lambda *x: (_sum(*x),), (weights, values), ctx.needs_input_grad[1:], (gradient,)
            )
        ctx.uses.factors.append((weights, gradient))
        with without_autocast(values.device.type):
            if values.shape[2] == 1:
                rows = _of_sentences(gradient.reshape(*weights.shape[:2], values.shape[3]), values)
                grad_weights = torch.bmm(rows, values.squeeze(2).mT)
            else:
                grouped = _grouped(gradient.reshape(*weights.shape[:2], values.shape[3]), values)
                grad_weights = torch.einsum("bkgnv,bsgv->bkgns", grouped, values)
        return None, grad_weights.reshape(weights.shape), None
