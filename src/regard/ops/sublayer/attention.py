"""Self- and cross-attention: projections by one product, energies and contexts by loops or torch's kernels.

    self:   [q k v] = n [W_q; W_k; W_v]ᵀ + b,  f = W_o c + b_o,  c = attention(R q, R k, v)
            grad_c = grad_f W_o,  [grad_q grad_k grad_v] of attention, turned back by R,  grad_n = [...] [W_q; W_k; W_v]
    cross:  q = n W_qᵀ + b_q,  c = attention(R q, k, v); keys, which are turned already, and values are given

q, k and v are columns of one matrix (B, T, width), and so are their gradients: nothing is copied between products and
attention (`regard.ops.dot_attention.numba`). Long sequences take torch's kernels, which keep no weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops.dot_attention import fused, short
from regard.ops.linear import linear, outer
from regard.ops.sublayer import reference
from regard.ops.sublayer.fused import AbstractInner, when

Parts = tuple[Any, Any, Any]
"""Queries, keys and values, or their gradients, as `Columns`."""


@dataclass(frozen=True)
class SelfAttention(AbstractInner):
    """f of the inputs W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, the support (B, 1, S) and R (T, D / 2), complex.

    Args:
        num_heads, num_key_value_heads: H and G.
        scale: on the energies.
        causal: whether step t attends to the positions 0 … t only.
    """

    num_heads: int
    num_key_value_heads: int
    scale: float
    causal: bool

    def forward(self, n: Tensor, lead: torch.Size, inputs: Any) -> tuple[Tensor, Any, Any]:
        """As `AbstractInner.forward`."""
        *weights, w_o, b_q, b_k, b_v, b_o, support, turn = inputs
        weight, bias = _joined(weights, (b_q, b_k, b_v))
        projected = linear(n, weight, bias).view(*lead, -1)
        parts = self._parts(projected, weights)
        _turn(parts[:2], turn)
        context, kept, extra = _attend(parts, support, self.scale, self.causal)
        change = _write(context, w_o, b_o, support, self.causal)
        return change, (weight, projected, context, *kept), extra

    def backward(
        self, grad: Tensor, n: Tensor, lead: torch.Size, inputs: Any, kept: Any, extra: Any, needs: Any
    ) -> tuple[Tensor, list[Tensor | None]]:
        """As `AbstractInner.backward`."""
        *weights, w_o, _, _, _, b_o, support, turn = inputs
        weight, projected, context, *kept = kept
        grad = _grad_written(grad, b_o, support, self.causal, lead)
        grad_context = linear(grad, w_o.t()).view(*lead, -1)
        grad_projected = torch.empty_like(projected)
        parts, grad_parts = (self._parts(matrix, weights) for matrix in (projected, grad_projected))
        _attend_backward(grad_context, parts, grad_parts, self.scale, self.causal, kept, extra)
        _turn(grad_parts[:2], None if turn is None else turn.conj())
        rows = grad_projected.view(len(n), -1)
        sizes = [len(w) for w in weights]
        of_output = _grad_output(grad, context, (needs[3], needs[7]))
        of_weights = outer(rows, n).split(sizes) if any(needs[:3]) else (None, None, None)
        of_biases = rows.sum(0).split(sizes) if any(needs[4:7]) else (None, None, None)
        grads = [*of_weights, of_output[0], *of_biases, of_output[1], None, None]
        return linear(rows, weight.t()), grads

    def reference(self, around: Any, inputs: Any, **options: Any) -> Tensor:
        """As `AbstractInner.reference`."""
        x, norm_weight, norm_bias, mask = around
        w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, support, turn = inputs
        return reference.self_attention_sublayer(
            x, norm_weight, norm_bias, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, mask, support, turn,
            num_heads=self.num_heads, num_key_value_heads=self.num_key_value_heads, scale=self.scale,
            causal=self.causal, **options,
        )  # fmt: skip

    def _parts(self, matrix: Tensor, weights: Sequence[Tensor]) -> Parts:
        columns = import_module(short.MODULE).Columns
        w_q, w_k, w_v = map(len, weights)
        groups = self.num_key_value_heads
        return (
            columns(matrix, 0, self.num_heads, w_q // self.num_heads),
            columns(matrix, w_q, groups, w_k // groups),
            columns(matrix, w_q + w_k, groups, w_v // groups),
        )


@dataclass(frozen=True)
class CrossAttention(AbstractInner):
    """f of W_q, keys (B, S, G, D), values (B, S, G, V), W_o, b_q, b_o, the support (B, 1, S) and R (T, D / 2), complex.

    Args:
        num_heads: H.
        scale: on the energies.
    """

    num_heads: int
    scale: float

    def forward(self, n: Tensor, lead: torch.Size, inputs: Any) -> tuple[Tensor, Any, Any]:
        """As `AbstractInner.forward`."""
        w_q, keys, values, w_o, b_q, b_o, support, turn = inputs
        query = linear(n, w_q, b_q).view(*lead, -1)
        parts = self._parts(query, keys, values)
        _turn(parts[:1], turn)
        context, kept, extra = _attend(parts, support, self.scale, False)
        return _write(context, w_o, b_o, support, False), (query, context, *kept), extra

    def backward(
        self, grad: Tensor, n: Tensor, lead: torch.Size, inputs: Any, kept: Any, extra: Any, needs: Any
    ) -> tuple[Tensor, list[Tensor | None]]:
        """As `AbstractInner.backward`."""
        w_q, keys, values, w_o, _, b_o, support, turn = inputs
        query, context, *kept = kept
        grad = _grad_written(grad, b_o, support, False, lead)
        grad_context = linear(grad, w_o.t()).view(*lead, -1)
        grad_query, grad_keys, grad_values = (
            torch.empty_like(x, memory_format=torch.contiguous_format) for x in (query, keys, values)
        )
        parts, grad_parts = self._parts(query, keys, values), self._parts(grad_query, grad_keys, grad_values)
        _attend_backward(grad_context, parts, grad_parts, self.scale, False, kept, extra)
        _turn(grad_parts[:1], None if turn is None else turn.conj())
        rows = grad_query.view(len(n), -1)
        of_output = _grad_output(grad, context, (needs[3], needs[5]))
        of_query = when(needs[0], lambda: outer(rows, n)), when(needs[4], lambda: rows.sum(0))
        grads = [of_query[0], grad_keys, grad_values, of_output[0], of_query[1], of_output[1], None, None]
        return linear(rows, w_q.t()), grads

    def reference(self, around: Any, inputs: Any, **options: Any) -> Tensor:
        """As `AbstractInner.reference`."""
        x, norm_weight, norm_bias, mask = around
        w_q, keys, values, w_o, b_q, b_o, support, turn = inputs
        return reference.cross_attention_sublayer(
            x, norm_weight, norm_bias, w_q, keys, values, w_o, b_q, b_o, mask, support, turn,
            num_heads=self.num_heads, scale=self.scale, **options,
        )  # fmt: skip

    def _parts(self, query: Tensor, keys: Tensor, values: Tensor) -> Parts:
        columns = import_module(short.MODULE).Columns
        q = columns(query, 0, self.num_heads, query.shape[2] // self.num_heads)
        # a view of what has no gaps, so that gradients are written where they belong
        k, v = (columns(x.detach().contiguous().flatten(2), 0, *x.shape[2:]) for x in (keys, values))
        return q, k, v


def _joined(weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> tuple[Tensor, Tensor | None]:
    """One matrix below the other, and their biases, where some may have none."""
    if all(bias is None for bias in biases):
        return torch.cat([*weights]), None
    filled = [w.new_zeros(len(w)) if bias is None else bias for w, bias in zip(weights, biases, strict=True)]
    return torch.cat([*weights]), torch.cat(filled)


def _turn(parts: Sequence[Any], turn: Tensor | None) -> None:
    """Multiplies neighbouring features, as complex numbers, by (T, D / 2), in place."""
    if turn is not None:
        for part in parts:
            torch.view_as_complex(part.view().unflatten(-1, (-1, 2))).mul_(turn[:, None])


def _attend(parts: Parts, support: Tensor | None, scale: float, causal: bool) -> tuple[Tensor, Sequence[Tensor], Any]:
    """The context (B, T, H · V), and what the backward pass needs: weights, or torch's graph."""
    query, keys, values = parts
    rows, steps = query.matrix.shape[:2]
    positions = keys.matrix.shape[1]
    seen = short.supported(support, rows, steps, positions)
    if short.refuse_sizes(steps, positions, keys.size) is None:
        context = query.matrix.new_empty(rows, steps, query.num_heads * values.size)
        weights = context.new_empty(rows, query.num_heads, steps, positions)
        import_module(short.MODULE).attend(
            query, keys, values, seen, scale=scale, causal=causal, context=context, weights=weights
        )
        return context, (weights,), None
    leaves = q, k, v = tuple(part.view().detach().requires_grad_() for part in parts)
    with torch.enable_grad():
        context = fused.attend(q, k, v, support, scale, causal)
    # contiguous as (B, T, H, V)
    return context.detach().flatten(2), (), (context, leaves)


def _attend_backward(
    grad_context: Tensor, parts: Parts, grads: Parts, scale: float, causal: bool, kept: Sequence[Tensor], extra: Any
) -> None:
    """Writes the gradients of queries, keys and values."""
    if extra is None:
        import_module(short.MODULE).attend_backward(grad_context, *parts, kept[0], *grads, scale=scale, causal=causal)
        return
    context, leaves = extra
    # retained: the outer graph may run backward again, and this one cannot know
    gradients = torch.autograd.grad(context, leaves, grad_context.view(context.shape), retain_graph=True)
    for columns, gradient in zip(grads, gradients, strict=True):
        columns.view().copy_(gradient)


def _write(context: Tensor, weight: Tensor, bias: Tensor | None, support: Tensor | None, causal: bool) -> Tensor:
    """W_o c + b_o (M, D); a query without support has no bias either."""
    change = linear(context.flatten(0, 1), weight, bias)
    dead = _without_support(bias, support, causal)
    if dead is not None:
        change.view(*context.shape[:2], -1).masked_fill_(dead, 0)
    return change


def _grad_written(grad: Tensor, bias: Tensor | None, support: Tensor | None, causal: bool, lead: torch.Size) -> Tensor:
    """The gradient of W_o c + b_o."""
    dead = _without_support(bias, support, causal)
    return grad if dead is None else grad.view(*lead, -1).masked_fill(dead, 0).view(grad.shape)


def _without_support(bias: Tensor | None, support: Tensor | None, causal: bool) -> Tensor | None:
    """The queries without support, (B, 1 or T, 1); None if there are none, or no bias that they must not get."""
    if bias is None or support is None:
        return None
    alive = reference.has_support(support, causal)
    return None if bool(alive.all()) else ~alive


def _grad_output(grad: Tensor, context: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
    """The gradients of W_o and b_o."""
    return [when(needs[0], lambda: outer(grad, context.flatten(0, 1))), when(needs[1], lambda: grad.sum(0))]
