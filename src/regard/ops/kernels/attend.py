"""Attention in one step, forward and backward, as compiled loops; the equations are in `regard.ops.attend`.

A kernel computes the energies of its rows, overwrites them with the weights, and computes the contexts, without tensors
of size (R, H, S, D). Threads share the sentences (`start` to `stop`).

Additive energies: tanh(q + k) = 1 - 2 / (1 + e^{2q} e^{2k}), where e^{2k} is computed once for all steps (`_raise`); if
|q| or |k| is too large, e^{2(q+k)} is used (`regard.ops.kernels.additive_tangent`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.kernels.compiled import compiled
from regard.ops.kernels.compiled.additive import backward, backward_factored, energy, energy_factored
from regard.ops.kernels.compiled.elementary import LARGE, REACH, powers
from regard.ops.threads import parallel_for


class StepMemory:
    """The memory of all steps.

    Args:
        keys: (B, S, G, D).
        values: (B, S, P, V).
        mask: (B, S) or None.
        v: (H, D) of additive energies, or None.
    """

    def __init__(self, keys: Tensor, values: Tensor, mask: Tensor | None, v: Tensor | None) -> None:
        self.keys = keys.detach().contiguous()
        k, self.values = self.keys.numpy(), values.detach().contiguous().numpy()
        self.mask = np.empty((0, 0), np.bool_) if mask is None else mask.contiguous().numpy()
        self.kind = k.dtype.type
        self.work = k[0].size // keys.shape[2] + self.values[0].size // values.shape[2]  # of a row's head
        self.v_shape = None if v is None else v.shape
        if v is None:
            self.constants: tuple[Any, ...] = (k,)
            self.kernels: tuple[Any, Any] = _dot, _dot_backward
            return
        # numpy would pin a parameter's memory
        of_v = v.detach().clone(memory_format=torch.contiguous_format).numpy()
        raised, in_reach = np.empty_like(k), np.empty(len(k), np.bool_)
        parallel_for(_raise, (k, REACH[k.dtype], raised, in_reach), len(k), k.size)
        self.constants = k, raised, in_reach, of_v, REACH[k.dtype], LARGE[k.dtype]
        self.kernels = _additive, _additive_backward

    def sums(self) -> tuple[Tensor, ...]:
        """Zeros for sums: of the gradients of additive keys without the factor 4 v, and of v for each sentence."""
        if self.v_shape is None:
            return ()
        return torch.zeros_like(self.keys), self.keys.new_zeros(len(self.keys), *self.v_shape)

    def forward(self, query: Tensor, sharpening: float) -> tuple[Tensor, Tensor]:
        """The contexts (R, H·V) and the weights (R, H, S) of queries (R, H, D)."""
        rows, heads, _ = query.shape
        contexts = query.new_empty(rows, heads * self.values.shape[3])
        weights = query.new_empty(rows, heads, self.keys.shape[1])
        results = weights.numpy(), contexts.numpy()
        arguments = query.detach().numpy(), self.mask, self.kind(sharpening), self.values, *results, *self.constants
        parallel_for(self.kernels[0], arguments, len(self.keys), rows * heads * self.work)
        return contexts, weights

    def backward(
        self,
        query: Tensor,
        weights: Tensor,
        grad_contexts: Tensor,
        grad_weights: Tensor | None,
        sharpening: float,
        sums: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor]:
        """The gradients of queries (R, H, D) and of energies (R, H, S); adds to `sums`."""
        grad_query, grad_energies = torch.empty_like(query), torch.empty_like(weights)
        of_weights = grad_energies[:0] if grad_weights is None else grad_weights.contiguous()
        results = grad_energies.numpy(), grad_query.numpy(), *(x.numpy() for x in sums)
        shared = self.kind(sharpening), self.values, weights.numpy(), grad_contexts.numpy(), of_weights.numpy()
        rows, heads, _ = query.shape
        arguments = query.numpy(), *shared, *results, *self.constants
        parallel_for(self.kernels[1], arguments, len(self.keys), rows * heads * self.work)
        return grad_query, grad_energies


@compiled
def _softmax_and_sum(
    mask: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    contexts: Any,
    hypotheses: int,
    start: int,
    stop: int,
) -> None:
    """weights (R, H, S): energies e, overwritten with α = softmax(β e); contexts (R, H·V): c = Σ_j α_j v_j.

    values (B, S, G, V) and mask (B, S), or a mask without rows. A row whose mask is all False gets zeros.
    """
    heads, positions = weights.shape[1:]
    groups, size = values.shape[2:]
    zero = sharpening - sharpening  # of the values' type
    for row in range(start * hypotheses, stop * hypotheses):
        b = row // hypotheses
        for h in range(heads):
            alpha = weights[row, h]
            # the largest β e, subtracted so that no exponential overflows; NaN passes
            top = -np.inf
            for s in range(positions):
                if len(mask) == 0 or mask[b, s]:
                    alpha[s] *= sharpening
                    top = top if alpha[s] <= top else alpha[s]
            total = zero
            for s in range(positions):
                if len(mask) == 0 or mask[b, s]:
                    alpha[s] = math.exp(alpha[s] - top)
                    total += alpha[s]
                else:
                    alpha[s] = zero
            for s in range(positions):
                alpha[s] = alpha[s] / total if total != zero else zero
            # c (V), four positions at a time, so that c is read and written a quarter as often
            context = contexts[row, h * size : (h + 1) * size]
            for d in range(size):
                context[d] = zero
            g = h * groups // heads  # adjacent heads share values
            for s in range(0, positions - positions % 4, 4):
                w, x, y, z = alpha[s], alpha[s + 1], alpha[s + 2], alpha[s + 3]
                v_0, v_1, v_2, v_3 = values[b, s, g], values[b, s + 1, g], values[b, s + 2, g], values[b, s + 3, g]
                for d in range(size):
                    context[d] += (w * v_0[d] + x * v_1[d]) + (y * v_2[d] + z * v_3[d])
            for s in range(positions - positions % 4, positions):
                w, v_0 = alpha[s], values[b, s, g]
                for d in range(size):
                    context[d] += w * v_0[d]


@compiled
def _through_softmax(
    sharpening: Any,
    values: Any,
    weights: Any,
    grad_contexts: Any,
    grad_weights: Any,
    grad_energies: Any,
    hypotheses: int,
    start: int,
    stop: int,
) -> None:
    """grad_energies (R, H, S) of grad_contexts (R, H·V) and of grad_weights (R, H, S), or without rows.

    grad_α_j = v_j · grad_c + grad_weights_j,  grad_e_j = β α_j (grad_α_j - Σ_i α_i grad_α_i)
    """
    heads, positions = weights.shape[1:]
    groups, size = values.shape[2:]
    for row in range(start * hypotheses, stop * hypotheses):
        b = row // hypotheses
        for h in range(heads):
            alpha, grad_context = weights[row, h], grad_contexts[row, h * size : (h + 1) * size]
            gradient = grad_energies[row, h]  # of α first, then of e
            mean = sharpening - sharpening
            for s in range(positions):
                value = values[b, s, h * groups // heads]
                total = sharpening - sharpening
                for d in range(size):
                    total += grad_context[d] * value[d]
                if len(grad_weights):
                    total += grad_weights[row, h, s]
                gradient[s] = total
                mean += alpha[s] * total
            for s in range(positions):
                gradient[s] = sharpening * alpha[s] * (gradient[s] - mean)


@compiled
def _raise(keys: Any, reach: Any, out: Any, in_reach: Any, start: int, stop: int) -> None:
    """e^{2k}, and for each sentence whether all k are within reach."""
    for b in range(start, stop):
        close = True
        for s in range(keys.shape[1]):
            for h in range(keys.shape[2]):
                close &= powers(keys[b, s, h], out[b, s, h], reach)
        in_reach[b] = close


@compiled
def _additive(
    queries: Any,
    mask: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    contexts: Any,
    keys: Any,
    key_powers: Any,
    in_reach: Any,
    v: Any,
    reach: Any,
    large: Any,
    start: int,
    stop: int,
) -> None:
    """e_j = Σ_d v_d tanh(q_d + k_jd), then softmax and sum; v (H, D)."""
    heads, size = v.shape
    hypotheses = len(queries) // len(keys)
    a = np.empty(size, v.dtype)  # e^{2q} of a row's head
    for row in range(start * hypotheses, stop * hypotheses):
        b = row // hypotheses
        for h in range(heads):
            query, energies = queries[row, h], weights[row, h]
            factored = powers(query, a, reach) and in_reach[b]
            for s in range(keys.shape[1]):
                if factored:
                    energies[s] = energy_factored(a, key_powers[b, s, h], v[h], large)
                else:
                    energies[s] = energy(query, keys[b, s, h], v[h], large)
    _softmax_and_sum(mask, sharpening, values, weights, contexts, hypotheses, start, stop)


@compiled
def _additive_backward(
    queries: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    grad_contexts: Any,
    grad_weights: Any,
    grad_energies: Any,
    grad_queries: Any,
    grad_keys: Any,
    grad_v: Any,
    keys: Any,
    key_powers: Any,
    in_reach: Any,
    v: Any,
    reach: Any,
    large: Any,
    start: int,
    stop: int,
) -> None:
    """Fills grad_queries (R, H, D); adds to grad_v (B, H, D) and to grad_keys (B, S, H, D), without the factor 4 v.

    With r = 1 / (1 + e^{2(q+k)}), tanh = 1 - 2 r and its slope is 4 r (1 - r):
        grad_q_d = 4 v_d Σ_j g_j r (1 - r),  grad_k_jd += 4 v_d g_j r (1 - r),  grad_v_d += Σ_j g_j (1 - 2 r)
    Sums are multiplied by 4 v_d once.
    """
    heads, size = v.shape
    hypotheses = len(queries) // len(keys)
    _through_softmax(sharpening, values, weights, grad_contexts, grad_weights, grad_energies, hypotheses, start, stop)
    zero, four = v.dtype.type(0), v.dtype.type(4)
    a, sums, shares = np.empty(size, v.dtype), np.empty(size, v.dtype), np.empty(size, v.dtype)
    for row in range(start * hypotheses, stop * hypotheses):
        b = row // hypotheses
        for h in range(heads):
            query = queries[row, h]
            factored = powers(query, a, reach) and in_reach[b]
            sums[:] = zero
            shares[:] = zero
            for s in range(keys.shape[1]):
                gradient = grad_energies[row, h, s]
                sums_k = grad_keys[b, s, h]
                if factored:
                    backward_factored(size, gradient, a, key_powers[b, s, h], large, sums, sums_k, shares)
                else:
                    backward(size, gradient, query, keys[b, s, h], large, sums, sums_k, shares)
            target, total = grad_queries[row, h], grad_v[b, h]
            for d in range(size):
                target[d] = four * v[h, d] * sums[d]
            for d in range(size):
                total[d] += shares[d] + shares[d]


@compiled
def _dot(
    queries: Any,
    mask: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    contexts: Any,
    keys: Any,
    start: int,
    stop: int,
) -> None:
    """e_j = Σ_d q_d k_jd, then softmax and sum."""
    heads, size = queries.shape[1:]
    hypotheses = len(queries) // len(keys)
    each = heads // keys.shape[2]  # adjacent heads share keys
    for row in range(start * hypotheses, stop * hypotheses):
        b = row // hypotheses
        for h in range(heads):
            query, energies = queries[row, h], weights[row, h]
            for s in range(keys.shape[1]):
                key = keys[b, s, h // each]
                total = query[0] * key[0]
                for d in range(1, size):
                    total += query[d] * key[d]
                energies[s] = total
    _softmax_and_sum(mask, sharpening, values, weights, contexts, hypotheses, start, stop)


@compiled
def _dot_backward(
    queries: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    grad_contexts: Any,
    grad_weights: Any,
    grad_energies: Any,
    grad_queries: Any,
    keys: Any,
    start: int,
    stop: int,
) -> None:
    """Fills grad_queries (R, H, D): grad_q = Σ_j g_j k_j."""
    heads, size = queries.shape[1:]
    hypotheses = len(queries) // len(keys)
    each = heads // keys.shape[2]
    _through_softmax(sharpening, values, weights, grad_contexts, grad_weights, grad_energies, hypotheses, start, stop)
    for row in range(start * hypotheses, stop * hypotheses):
        b = row // hypotheses
        for h in range(heads):
            target = grad_queries[row, h]
            for d in range(size):
                target[d] = 0
            for s in range(keys.shape[1]):
                gradient, key = grad_energies[row, h, s], keys[b, s, h // each]
                for d in range(size):
                    target[d] += gradient * key[d]
