"""Attention of every step as compiled loops; the equations are in `regard.ops.attend.look`.

A kernel makes the energies of its rows and then, in their place, the weights, and the contexts: nothing of size
(R, H, S, D) is ever made. Threads share the rows of a batch (`start` to `stop`).

Additive keys: tanh(q + k) = 1 - 2 / (1 + e^{2q} e^{2k}), and e^{2k} is computed once for all steps (`_raise`); where
|q| or |k| is too large for the factors, e^{2(q+k)} itself is taken (`regard.ops.additive.numba.tangent`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.attend.look import AbstractLook, AbstractLookBackward
from regard.ops.compiled import compiled
from regard.ops.compiled.additive import backward, backward_factored, energy, energy_factored
from regard.ops.compiled.elementary import LARGE, REACH, powers
from regard.ops.threads import parallel_for


class Look(AbstractLook):
    """What all energies share: softmax and sum."""

    def __init__(self, *memory: Any, **options: Any) -> None:
        super().__init__(*memory, **options)
        mask = self.keys.new_empty(0, 0, dtype=torch.bool) if self.mask is None else self.mask
        self.itself = np.arange(len(self.keys))
        self.sharpened = self.weights.numpy().dtype.type(self.sharpening)
        self.alphas = self.weights.numpy()
        self.read = (mask.numpy(), self.sharpened, self.values.numpy())

    def _look(self, t: int, contexts: Tensor, column: int) -> None:
        self._attend(t, self.itself, self.queries[t].numpy(), self.alphas, contexts, column)

    def _attend(self, t: int, sentences: Any, queries: Any, weights: Any, contexts: Tensor, column: int) -> None:
        buffers = (t, sentences, *self.read, weights, contexts.numpy(), column)
        self.run(self.kernel, len(sentences), *buffers, queries, *self.constants)

    kernel: Any
    """Energies, then `softmax_and_sum`."""
    constants: tuple[Any, ...]
    """What the energies are made of beside the queries (R, H, D)."""

    def run(self, kernel: Any, rows: int, *buffers: Any) -> None:
        """Calls a kernel for so many rows; one costs H·S·(D + V)."""
        each = self.weights.shape[2] * self.weights.shape[3] * (self.size + self.values.shape[3])
        parallel_for(kernel, buffers, rows, rows * each)


class LookBackward(AbstractLookBackward):
    """Of `Look`."""

    def __init__(self, look: Look) -> None:
        super().__init__(look)
        self._look = look
        self._softmax = (look.sharpened, look.values.numpy(), look.alphas)
        self._grad_energies = np.empty_like(look.alphas[0])

    def _through_softmax(self, t: int, grad_contexts: Tensor, grad_weights: Tensor | None) -> None:
        grad_alphas = self._grad_energies[:0] if grad_weights is None else grad_weights.contiguous().numpy()
        self._run(_through_softmax, t, *self._softmax, grad_contexts.numpy(), grad_alphas, self._grad_energies)

    def _run(self, kernel: Any, *buffers: Any) -> None:
        self._look.run(kernel, len(self._look.keys), *buffers)


class EnergiesBackward(LookBackward):
    """Of looks whose energies are made of a query and the keys alone.

    Args:
        kernel: fills the gradients of queries and adds to the sums.
        factor: of the sum for keys, (H, D), the same in all steps, which the kernel leaves out; None: 1.
    """

    def __init__(self, look: Look, kernel: Any, factor: Tensor | None = None) -> None:
        super().__init__(look)
        self._kernel, self._factor = kernel, factor
        self._results: tuple[Any, ...] = self._grad_energies, self.grad_queries.numpy(), self.grad_keys.numpy()
        if self.grad_v is not None:
            self._results += (self.grad_v.numpy(),)

    def backward(self, t: int, grad_contexts: Tensor, grad_weights: Tensor | None) -> None:
        self._through_softmax(t, grad_contexts, grad_weights)
        self._run(self._kernel, t, self._look.queries[t].numpy(), *self._look.constants, *self._results)

    def gradients(self, grad_contexts: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        grad_keys, grad_values, grad_v = super().gradients(grad_contexts)
        return grad_keys if self._factor is None else grad_keys.mul_(self._factor), grad_values, grad_v


class AdditiveLook(Look):
    """e_j = v · tanh(q + k_j)."""

    def __init__(self, *memory: Any, **options: Any) -> None:
        super().__init__(*memory, **options)
        assert self.v is not None
        keys = self.keys.numpy()
        raised, in_reach, kind = np.empty_like(keys), np.empty(len(keys), np.bool_), keys.dtype
        parallel_for(_raise, (keys, REACH[kind], raised, in_reach), len(keys), keys.size)
        self.kernel, self.constants = _additive, (keys, raised, in_reach, self.v.numpy(), REACH[kind], LARGE[kind])

    def reverse(self) -> AbstractLookBackward:
        assert self.v is not None
        return EnergiesBackward(self, _additive_backward, 4 * self.v)


class RectifiedLook(Look):
    """e_j = v · max(q + k_j, 0)."""

    def __init__(self, *memory: Any, **options: Any) -> None:
        super().__init__(*memory, **options)
        assert self.v is not None
        self.kernel, self.constants = _rectified, (self.keys.numpy(), self.v.numpy())

    def reverse(self) -> AbstractLookBackward:
        return EnergiesBackward(self, _rectified_backward, self.v)


class DotLook(Look):
    """e_j = q · k_j."""

    def __init__(self, *memory: Any, **options: Any) -> None:
        super().__init__(*memory, **options)
        self.kernel, self.constants = _dot, (self.keys.numpy(),)

    def reverse(self) -> AbstractLookBackward:
        return EnergiesBackward(self, _dot_backward)


LOOKS: dict[str, type[AbstractLook]] = {"additive": AdditiveLook, "rectified": RectifiedLook, "dot": DotLook}


@compiled
def _raise(keys: Any, reach: Any, out: Any, in_reach: Any, start: int, stop: int) -> None:
    """e^{2k}, and which sentences have all of them within reach."""
    for b in range(start, stop):
        close = True
        for s in range(keys.shape[1]):
            for h in range(keys.shape[2]):
                close &= powers(keys[b, s, h], out[b, s, h], reach)
        in_reach[b] = close


@compiled
def softmax_and_sum(
    t: int,
    sentences: Any,
    mask: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    contexts: Any,
    column: int,
    start: int,
    stop: int,
) -> None:
    """α = softmax(β e) in the place of the energies `weights[t]` (R, H, S), and c = Σ_j α_j v_j into `contexts[t]`.

    values (B, S, G, V), mask (B, S) or without rows; contexts (T, R, ≥ column + H·V). A row without support gets zeros.
    """
    heads, positions = weights.shape[2:]
    groups, size = values.shape[2:]
    zero = sharpening - sharpening  # of the values' type
    for row in range(start, stop):
        b = sentences[row]
        for h in range(heads):
            alpha = weights[t, row, h]
            # the largest β e, taken from all of them before the exponential, so that none overflows; NaN passes
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
            # c (V), four positions at a time: c is read and written a quarter as often
            context = contexts[t, row, column + h * size : column + (h + 1) * size]
            for d in range(size):
                context[d] = zero
            g = h * groups // heads  # heads side by side share values
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
def _additive(
    t: int,
    sentences: Any,
    mask: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    contexts: Any,
    column: int,
    queries: Any,
    keys: Any,
    key_powers: Any,
    in_reach: Any,
    v: Any,
    reach: Any,
    large: Any,
    start: int,
    stop: int,
) -> None:
    """e_j = Σ_d v_d tanh(q_d + k_jd), then softmax and sum.

    queries (R, H, D), keys and their powers e^{2k} (B, S, H, D), v (H, D); in_reach (B,): whether all keys have powers.
    """
    heads, size = v.shape
    a = np.empty(size, v.dtype)  # e^{2q} of a row's head
    for row in range(start, stop):
        b = sentences[row]
        for h in range(heads):
            query, energies = queries[row, h], weights[t, row, h]
            factored = powers(query, a, reach) and in_reach[b]
            for s in range(keys.shape[1]):
                if factored:
                    energies[s] = energy_factored(a, key_powers[b, s, h], v[h], large)
                else:
                    energies[s] = energy(query, keys[b, s, h], v[h], large)
    softmax_and_sum(t, sentences, mask, sharpening, values, weights, contexts, column, start, stop)


@compiled
def _additive_backward(
    t: int,
    queries: Any,
    keys: Any,
    key_powers: Any,
    in_reach: Any,
    v: Any,
    reach: Any,
    large: Any,
    grad_energies: Any,
    grad_queries: Any,
    grad_keys: Any,
    grad_v: Any,
    start: int,
    stop: int,
) -> None:
    """Fills grad_queries (T, B, H, D) at t; adds to grad_v (B, H, D) and to grad_keys (B, S, H, D), still without 4 v.

    With r = 1 / (1 + e^{2(q+k)}), tanh = 1 - 2 r and its slope is 4 r (1 - r):
        grad_q_d = 4 v_d Σ_j g_j r (1 - r),  grad_k_jd += 4 v_d g_j r (1 - r),  grad_v_d += Σ_j g_j (1 - 2 r)
    4 v_d is the same for all positions and steps, so that it is multiplied once, after the sums.
    """
    heads, size = v.shape
    zero, four = v.dtype.type(0), v.dtype.type(4)
    a, sums, shares = np.empty(size, v.dtype), np.empty(size, v.dtype), np.empty(size, v.dtype)
    for b in range(start, stop):
        for h in range(heads):
            query = queries[b, h]
            factored = powers(query, a, reach) and in_reach[b]
            sums[:] = zero
            shares[:] = zero
            for s in range(keys.shape[1]):
                gradient = grad_energies[b, h, s]
                sums_k = grad_keys[b, s, h]
                if factored:
                    backward_factored(size, gradient, a, key_powers[b, s, h], large, sums, sums_k, shares)
                else:
                    backward(size, gradient, query, keys[b, s, h], large, sums, sums_k, shares)
            target, total = grad_queries[t, b, h], grad_v[b, h]
            for d in range(size):
                target[d] = four * v[h, d] * sums[d]
            for d in range(size):
                total[d] += shares[d] + shares[d]


@compiled
def _rectified(
    t: int,
    sentences: Any,
    mask: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    contexts: Any,
    column: int,
    queries: Any,
    keys: Any,
    v: Any,
    start: int,
    stop: int,
) -> None:
    """e_j = Σ_d v_d max(q_d + k_jd, 0), then softmax and sum; queries (R, H, D), keys (B, S, H, D)."""
    heads, size = v.shape
    zero = v.dtype.type(0)
    for row in range(start, stop):
        b = sentences[row]
        for h in range(heads):
            query, energies, factor = queries[row, h], weights[t, row, h], v[h]
            for s in range(keys.shape[1]):
                key, total = keys[b, s, h], zero
                for d in range(size):
                    x = query[d] + key[d]
                    total += factor[d] * (zero if x < zero else x)
                energies[s] = total
    softmax_and_sum(t, sentences, mask, sharpening, values, weights, contexts, column, start, stop)


@compiled
def _rectified_backward(
    t: int,
    queries: Any,
    keys: Any,
    v: Any,
    grad_energies: Any,
    grad_queries: Any,
    grad_keys: Any,
    grad_v: Any,
    start: int,
    stop: int,
) -> None:
    """Fills grad_queries (T, B, H, D) at t; adds to grad_v (B, H, D) and to grad_keys (B, S, H, D), still without v.

    With x = q + k:  grad_q_d = v_d Σ_j g_j [x > 0],  grad_k_jd += v_d g_j [x > 0],  grad_v_d += Σ_j g_j max(x, 0)
    """
    heads, size = v.shape
    zero = v.dtype.type(0)
    sums = np.empty(size, v.dtype)
    for b in range(start, stop):
        for h in range(heads):
            query, total = queries[b, h], grad_v[b, h]
            sums[:] = zero
            for s in range(keys.shape[1]):
                gradient, key, sums_k = grad_energies[b, h, s], keys[b, s, h], grad_keys[b, s, h]
                for d in range(size):
                    x = query[d] + key[d]
                    share = gradient if x > zero else zero
                    sums[d] += share
                    sums_k[d] += share
                    total[d] += share * x
            target = grad_queries[t, b, h]
            for d in range(size):
                target[d] = v[h, d] * sums[d]


@compiled
def _dot(
    t: int,
    sentences: Any,
    mask: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    contexts: Any,
    column: int,
    queries: Any,
    keys: Any,
    start: int,
    stop: int,
) -> None:
    """e_j = Σ_d q_d k_jd, then softmax and sum; queries (R, H, D), keys (B, S, G, D)."""
    heads, size = queries.shape[1:]
    each = heads // keys.shape[2]  # heads side by side share keys
    for row in range(start, stop):
        b = sentences[row]
        for h in range(heads):
            query, energies = queries[row, h], weights[t, row, h]
            for s in range(keys.shape[1]):
                key = keys[b, s, h // each]
                total = query[0] * key[0]
                for d in range(1, size):
                    total += query[d] * key[d]
                energies[s] = total
    softmax_and_sum(t, sentences, mask, sharpening, values, weights, contexts, column, start, stop)


@compiled
def _dot_backward(
    t: int, queries: Any, keys: Any, grad_energies: Any, grad_queries: Any, grad_keys: Any, start: int, stop: int
) -> None:
    """Fills grad_queries (T, B, H, D) at t: grad_q = Σ_j g_j k_j; adds to grad_keys (B, S, G, D): grad_k_j += g_j q."""
    heads, size = queries.shape[1:]
    each = heads // keys.shape[2]
    for b in range(start, stop):
        for h in range(heads):
            query, target = queries[b, h], grad_queries[t, b, h]
            for d in range(size):
                target[d] = 0
            for s in range(keys.shape[1]):
                gradient, key, sums = grad_energies[b, h, s], keys[b, s, h // each], grad_keys[b, s, h // each]
                for d in range(size):
                    target[d] += gradient * key[d]
                for d in range(size):
                    sums[d] += gradient * query[d]


@compiled
def _through_softmax(
    t: int,
    sharpening: Any,
    values: Any,
    weights: Any,
    grad_contexts: Any,
    grad_weights: Any,
    grad_energies: Any,
    start: int,
    stop: int,
) -> None:
    """grad_energies (B, H, S) of grad_contexts (T, B, H·V) at t and of grad_weights (B, H, S), or without rows.

    grad_α_j = v_j · grad_c + grad_weights_j,  grad_e_j = β α_j (grad_α_j - Σ_i α_i grad_α_i)
    """
    heads, positions = weights.shape[2:]
    groups, size = values.shape[2:]
    for b in range(start, stop):
        for h in range(heads):
            alpha, grad_context = weights[t, b, h], grad_contexts[t, b, h * size : (h + 1) * size]
            gradient = grad_energies[b, h]  # of α first, then of e
            mean = sharpening - sharpening
            for s in range(positions):
                value = values[b, s, h * groups // heads]
                total = sharpening - sharpening
                for d in range(size):
                    total += grad_context[d] * value[d]
                if len(grad_weights):
                    total += grad_weights[b, h, s]
                gradient[s] = total
                mean += alpha[s] * total
            for s in range(positions):
                gradient[s] = sharpening * alpha[s] * (gradient[s] - mean)
