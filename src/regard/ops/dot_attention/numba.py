"""Attention of short sequences as a compiled loop over sentences and heads; its weights are kept.

    forward:   e_ts = g · q_tᵀ k_s,  α_t = softmax(e_t) over the support,  c_t = Σ_s α_ts v_s
    backward:  grad_α_ts = grad_c_tᵀ v_s,  grad_e_ts = g α_ts (grad_α_ts - Σ_i α_ti grad_α_ti)
               grad_q_t = Σ_s grad_e_ts k_s,  grad_k_s = Σ_t grad_e_ts q_t,  grad_v_s = Σ_t α_ts grad_c_t

Queries, keys, values and their gradients are columns of matrices (B, T or S, width) without gaps: head h of the queries
begins at column `q_at` + h D, and so on. So the three may stand in one matrix, as one product makes them. Query t
attends to positions s with mask[b, t, s], and if causal to s ≤ t only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from regard.ops.compiled import compiled, subroutine
from regard.ops.compiled.elementary import power
from regard.ops.threads import parallel_for

EXPONENTIAL = 8
"""Innermost steps that an exponential counts for."""


class Columns(NamedTuple):
    """Heads that are columns of a matrix.

    Args:
        matrix: (B, S, width), without gaps.
        start: the first column.
        num_heads, size: how many heads follow, and how wide each is.
    """

    matrix: Tensor
    start: int
    num_heads: int
    size: int

    def view(self) -> Tensor:
        """(B, S, H, D)."""
        end = self.start + self.num_heads * self.size
        return self.matrix[..., self.start : end].unflatten(-1, (self.num_heads, self.size))


def attend(
    query: Columns,
    keys: Columns,
    values: Columns,
    support: Tensor | None,
    *,
    scale: float,
    causal: bool,
    context: Tensor,
    weights: Tensor,
) -> None:
    """Writes the context (B, T, H · V) and the weights (B, H, T, S).

    Args:
        support: (B, T, S) bool; None for all.
    """
    work = weights.numel() * (query.size + values.size + EXPONENTIAL)
    arguments = (
        query.matrix.numpy(), query.start, keys.matrix.numpy(), keys.start, values.matrix.numpy(), values.start,
        _mask(support, weights), support is not None, weights.numpy().dtype.type(scale), causal, keys.num_heads,
        query.size, context.numpy(), weights.numpy(),
    )  # fmt: skip
    parallel_for(_attend, arguments, weights.shape[0] * keys.num_heads, work)


def attend_backward(
    grad_context: Tensor,
    query: Columns,
    keys: Columns,
    values: Columns,
    weights: Tensor,
    grad_query: Columns,
    grad_keys: Columns,
    grad_values: Columns,
    *,
    scale: float,
    causal: bool,
) -> None:
    """Writes the gradients of queries, keys and values.

    Args:
        grad_context: (B, T, H · V).
        weights: (B, H, T, S), as `attend` wrote them.
    """
    work = weights.numel() * (3 * query.size + 2 * values.size)
    arguments = (
        grad_context.numpy(), query.matrix.numpy(), query.start, keys.matrix.numpy(), keys.start,
        values.matrix.numpy(), values.start, weights.numpy(), weights.numpy().dtype.type(scale), causal, keys.num_heads,
        query.size, grad_query.matrix.numpy(), grad_query.start, grad_keys.matrix.numpy(), grad_keys.start,
        grad_values.matrix.numpy(), grad_values.start,
    )  # fmt: skip
    parallel_for(_attend_backward, arguments, weights.shape[0] * keys.num_heads, work)


def _mask(support: Tensor | None, weights: Tensor) -> Any:
    if support is None:
        return np.empty((1, 1, 1), np.bool_)
    return support.contiguous().numpy()


@subroutine
def _compare(x: Any, rows: Any, at: int, count: int, out: Any) -> None:
    """out_s ← xᵀ rows[s, at : at + D], four rows at a time, so that x is read once for them."""
    size, zero = len(x), x.dtype.type(0)
    s = 0
    while s + 4 <= count:
        a, b, c, d = zero, zero, zero, zero
        r0, r1 = rows[s, at : at + size], rows[s + 1, at : at + size]
        r2, r3 = rows[s + 2, at : at + size], rows[s + 3, at : at + size]
        for i in range(size):
            a += x[i] * r0[i]
            b += x[i] * r1[i]
            c += x[i] * r2[i]
            d += x[i] * r3[i]
        out[s], out[s + 1], out[s + 2], out[s + 3] = a, b, c, d
        s += 4
    while s < count:
        a = zero
        r0 = rows[s, at : at + size]
        for i in range(size):
            a += x[i] * r0[i]
        out[s] = a
        s += 1


@subroutine
def _combine(factors: Any, rows: Any, at: int, count: int, out: Any) -> None:
    """Adds Σ_s factors_s rows[s, at : at + D] to out, four rows at a time, so that out is read once for them."""
    size = len(out)
    s = 0
    while s + 4 <= count:
        a, b, c, d = factors[s], factors[s + 1], factors[s + 2], factors[s + 3]
        r0, r1 = rows[s, at : at + size], rows[s + 1, at : at + size]
        r2, r3 = rows[s + 2, at : at + size], rows[s + 3, at : at + size]
        for i in range(size):
            out[i] += (a * r0[i] + b * r1[i]) + (c * r2[i] + d * r3[i])
        s += 4
    while s < count:
        a = factors[s]
        r0 = rows[s, at : at + size]
        for i in range(size):
            out[i] += a * r0[i]
        s += 1


@compiled
def _attend(
    query: Any,
    query_at: int,
    keys: Any,
    keys_at: int,
    values: Any,
    values_at: int,
    support: Any,
    is_masked: bool,
    scale: Any,
    causal: bool,
    groups: int,
    size: int,
    context: Any,
    weights: Any,
    start: int,
    stop: int,
) -> None:
    kind = context.dtype.type
    zero, half, one, low = kind(0), kind(0.5), kind(1), kind(-np.inf)
    heads, steps, positions = weights.shape[1], weights.shape[2], weights.shape[3]
    sharing, width = heads // groups, context.shape[2] // heads
    for part in range(start, stop):
        b, group = part // groups, part % groups
        k_at, v_at = keys_at + group * size, values_at + group * width
        for h in range(group * sharing, (group + 1) * sharing):
            q_at, c_at = query_at + h * size, h * width
            for t in range(steps):
                count = min(t + 1, positions) if causal else positions
                row = weights[b, h, t]
                _compare(query[b, t, q_at : q_at + size], keys[b], k_at, count, row)
                # α over the support, as e^{e - top}; `power` is e^{2x}
                top = low
                if is_masked:
                    seen = support[b, t]
                    for s in range(count):
                        row[s] = row[s] * scale if seen[s] else low
                else:
                    for s in range(count):
                        row[s] *= scale
                for s in range(count):
                    top = row[s] if row[s] > top else top
                total = zero
                for s in range(count):
                    x = zero if row[s] == low else power(half * (row[s] - top))
                    row[s] = x
                    total += x
                # a query without support reads zeros
                inverse = zero if total == zero else one / total
                for s in range(count):
                    row[s] *= inverse
                row[count:] = zero
                out = context[b, t, c_at : c_at + width]
                out[:] = zero
                _combine(row, values[b], v_at, count, out)


@compiled
def _attend_backward(
    grad_context: Any,
    query: Any,
    query_at: int,
    keys: Any,
    keys_at: int,
    values: Any,
    values_at: int,
    weights: Any,
    scale: Any,
    causal: bool,
    groups: int,
    size: int,
    grad_query: Any,
    grad_query_at: int,
    grad_keys: Any,
    grad_keys_at: int,
    grad_values: Any,
    grad_values_at: int,
    start: int,
    stop: int,
) -> None:
    kind = grad_context.dtype.type
    zero = kind(0)
    heads, steps, positions = weights.shape[1], weights.shape[2], weights.shape[3]
    sharing, width = heads // groups, grad_context.shape[2] // heads
    grad_energies = np.empty((steps, positions), grad_context.dtype)
    # grad_e_ts and α_ts of one s, over the t that attend to it
    column, seen = np.empty(steps, grad_context.dtype), np.empty(steps, grad_context.dtype)
    for part in range(start, stop):
        b, group = part // groups, part % groups
        k_at, v_at = keys_at + group * size, values_at + group * width
        gk_at, gv_at = grad_keys_at + group * size, grad_values_at + group * width
        for s in range(positions):
            grad_keys[b, s, gk_at : gk_at + size] = zero
            grad_values[b, s, gv_at : gv_at + width] = zero
        for h in range(group * sharing, (group + 1) * sharing):
            q_at, gq_at, c_at = query_at + h * size, grad_query_at + h * size, h * width
            for t in range(steps):
                count = min(t + 1, positions) if causal else positions
                row, alpha = grad_energies[t], weights[b, h, t]
                _compare(grad_context[b, t, c_at : c_at + width], values[b], v_at, count, row)
                total = zero
                for s in range(count):
                    total += alpha[s] * row[s]
                for s in range(count):
                    row[s] = scale * alpha[s] * (row[s] - total)
                out = grad_query[b, t, gq_at : gq_at + size]
                out[:] = zero
                _combine(row, keys[b], k_at, count, out)
            for s in range(positions):
                first = min(s, steps) if causal else 0
                for t in range(first, steps):
                    column[t], seen[t] = grad_energies[t, s], weights[b, h, t, s]
                count = steps - first
                out = grad_keys[b, s, gk_at : gk_at + size]
                _combine(column[first:], query[b, first:], q_at, count, out)
                out = grad_values[b, s, gv_at : gv_at + width]
                _combine(seen[first:], grad_context[b, first:], c_at, count, out)
