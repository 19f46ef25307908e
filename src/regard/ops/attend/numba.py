"""Attention of every step as compiled loops.

The powers of additive keys, of which tangents are made (`regard.ops.additive.numba.tangent`), are computed once for
all steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.attend.look import AbstractLook, AbstractLookBack
from regard.ops.compiled import compiled
from regard.ops.compiled.additive import back, back_factored, energy, energy_factored
from regard.ops.compiled.elementary import LARGE, REACH, powers
from regard.ops.threads import spread


class _Look(AbstractLook):
    def __init__(self, *memory: Any, **options: Any) -> None:
        super().__init__(*memory, **options)
        mask = self.keys.new_empty(0, 0, dtype=torch.bool) if self.mask is None else self.mask
        self.everyone = np.arange(len(self.keys))
        self.sharpened = self.weights.numpy().dtype.type(self.sharpening)
        self.kept = self.weights.numpy()
        self.read = (mask.numpy(), self.sharpened, self.values.numpy())

    def _look(self, t: int, contexts: Tensor, column: int) -> None:
        self._attend(t, self.everyone, self.queries[t].numpy(), self.kept, contexts, column)

    def once(self, query: Tensor, owners: Tensor, contexts: Tensor, column: int = 0) -> Tensor:
        weights = self.weights.new_empty(1, len(query), *self.weights.shape[2:])
        asked = query.contiguous().unflatten(1, (-1, self.size)).numpy()
        self._attend(0, owners.numpy(), asked, weights.numpy(), contexts[None], column)
        return weights[0]

    def _attend(self, t: int, owners: Any, queries: Any, weights: Any, contexts: Tensor, column: int) -> None:
        given = (t, owners, *self.read, weights, contexts.numpy(), column)
        self.spread(self.kernel, len(owners), *given, queries, *self.asked)

    kernel: Any
    """Energies, then `_settle`."""
    asked: tuple[Any, ...]
    """What the energies are made of beside the queries (R, H, D)."""

    def spread(self, kernel: Any, rows: int, *given: Any) -> None:
        """Calls a kernel for so many rows."""
        each = self.weights.shape[2] * self.weights.shape[3] * (self.size + self.values.shape[3])
        spread(kernel, given, rows, rows * each)


class _LookBack(AbstractLookBack):
    def __init__(self, look: _Look) -> None:
        super().__init__(look)
        self._look = look
        self._settled = (look.sharpened, look.values.numpy(), look.kept)
        self._by_energies = np.empty_like(look.kept[0])
        self._results: tuple[Any, ...] = (self._by_energies, self.by_queries.numpy(), self.by_keys.numpy())

    def _unsettle(self, t: int, by_contexts: Tensor, by_weights: Tensor | None) -> None:
        told = self._by_energies[:0] if by_weights is None else by_weights.contiguous().numpy()
        self._spread(_unsettle, t, *self._settled, by_contexts.numpy(), told, self._by_energies)

    def _spread(self, kernel: Any, *given: Any) -> None:
        self._look.spread(kernel, len(self._look.keys), *given)


class AdditiveLook(_Look):
    """e_j = v · tanh(q + k_j)."""

    def __init__(self, *memory: Any, **options: Any) -> None:
        super().__init__(*memory, **options)
        assert self.v is not None
        keys = self.keys.numpy()
        raised, near, kind = np.empty_like(keys), np.empty(len(keys), np.bool_), keys.dtype
        spread(_raise, (keys, REACH[kind], raised, near), len(keys), keys.size)
        self.kernel, self.asked = _additive, (keys, raised, near, self.v.numpy(), REACH[kind], LARGE[kind])

    def back(self) -> AbstractLookBack:
        return AdditiveLookBack(self)


class AdditiveLookBack(_LookBack):
    """Of `AdditiveLook`; what is summed for keys still lacks 4 v."""

    def __init__(self, look: AdditiveLook) -> None:
        super().__init__(look)
        assert self.by_v is not None
        self._asked = look.asked
        self._results = (*self._results, self.by_v.numpy())

    def backward(self, t: int, by_contexts: Tensor, by_weights: Tensor | None) -> None:
        self._unsettle(t, by_contexts, by_weights)
        self._spread(_additive_back, t, self.look.queries[t].numpy(), *self._asked, *self._results)

    def gradients(self, by_contexts: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        assert self.look.v is not None
        by_keys, by_values, by_v = super().gradients(by_contexts)
        return by_keys.mul_(4 * self.look.v), by_values, by_v


class DotLook(_Look):
    """e_j = q · k_j."""

    def __init__(self, *memory: Any, **options: Any) -> None:
        super().__init__(*memory, **options)
        self.kernel, self.asked = _dot, (self.keys.numpy(),)

    def back(self) -> AbstractLookBack:
        return DotLookBack(self)


class DotLookBack(_LookBack):
    """Of `DotLook`."""

    def backward(self, t: int, by_contexts: Tensor, by_weights: Tensor | None) -> None:
        self._unsettle(t, by_contexts, by_weights)
        self._spread(_dot_back, t, self.look.queries[t].numpy(), self.look.keys.numpy(), *self._results)


LOOKS: dict[str, type[AbstractLook]] = {"additive": AdditiveLook, "dot": DotLook}


@compiled
def _raise(keys: Any, reach: Any, out: Any, near: Any, start: int, stop: int) -> None:
    """e^{2k}, and which sentences have all of them within reach."""
    for b in range(start, stop):
        close = True
        for s in range(keys.shape[1]):
            for h in range(keys.shape[2]):
                close &= powers(keys[b, s, h], out[b, s, h], reach)
        near[b] = close


@compiled
def _settle(
    t: int,
    owners: Any,
    mask: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    contexts: Any,
    column: int,
    start: int,
    stop: int,
) -> None:
    """Energies (T, R, H, S) at t become weights; contexts (T, R, ≥ column + H·V) get their sums."""
    heads, positions = weights.shape[2:]
    groups, size = values.shape[2:]
    zero = sharpening - sharpening
    for row in range(start, stop):
        b = owners[row]
        for h in range(heads):
            found = weights[t, row, h]
            top = -np.inf
            for s in range(positions):
                if len(mask) == 0 or mask[b, s]:
                    found[s] *= sharpening
                    top = top if found[s] <= top else found[s]
            total = zero
            for s in range(positions):
                if len(mask) == 0 or mask[b, s]:
                    found[s] = math.exp(found[s] - top)
                    total += found[s]
                else:
                    found[s] = zero
            for s in range(positions):
                found[s] = found[s] / total if total != zero else zero
            context = contexts[t, row, column + h * size : column + (h + 1) * size]
            for d in range(size):
                context[d] = zero
            g = h * groups // heads
            for s in range(0, positions - positions % 4, 4):
                w, x, y, z = found[s], found[s + 1], found[s + 2], found[s + 3]
                one, two, three, four = values[b, s, g], values[b, s + 1, g], values[b, s + 2, g], values[b, s + 3, g]
                for d in range(size):
                    context[d] += (w * one[d] + x * two[d]) + (y * three[d] + z * four[d])
            for s in range(positions - positions % 4, positions):
                w, one = found[s], values[b, s, g]
                for d in range(size):
                    context[d] += w * one[d]


@compiled
def _additive(
    t: int,
    owners: Any,
    mask: Any,
    sharpening: Any,
    values: Any,
    weights: Any,
    contexts: Any,
    column: int,
    queries: Any,
    keys: Any,
    key_powers: Any,
    near: Any,
    v: Any,
    reach: Any,
    large: Any,
    start: int,
    stop: int,
) -> None:
    """A look at t for the rows start … stop; queries (R, H, D), keys (B, S, H, D), v (H, D)."""
    heads, size = v.shape
    a = np.empty(size, v.dtype)
    for row in range(start, stop):
        b = owners[row]
        for h in range(heads):
            query, factor, found = queries[row, h], v[h], weights[t, row, h]
            factored = powers(query, a, reach) and near[b]
            for s in range(keys.shape[1]):
                if factored:
                    found[s] = energy_factored(a, key_powers[b, s, h], factor, large)
                else:
                    found[s] = energy(query, keys[b, s, h], factor, large)
    _settle(t, owners, mask, sharpening, values, weights, contexts, column, start, stop)


@compiled
def _additive_back(
    t: int,
    queries: Any,
    keys: Any,
    key_powers: Any,
    near: Any,
    v: Any,
    reach: Any,
    large: Any,
    by_energies: Any,
    by_queries: Any,
    by_keys: Any,
    by_v: Any,
    start: int,
    stop: int,
) -> None:
    """by_queries (T, B, H, D) at t; adds to by_v (B, H, D) and to by_keys (B, S, H, D), which still lacks 4 v."""
    heads, size = v.shape
    zero, four = v.dtype.type(0), v.dtype.type(4)
    a, sums, shares = np.empty(size, v.dtype), np.empty(size, v.dtype), np.empty(size, v.dtype)
    for b in range(start, stop):
        for h in range(heads):
            query, factor = queries[b, h], v[h]
            factored = powers(query, a, reach) and near[b]
            sums[:] = zero
            shares[:] = zero
            for s in range(keys.shape[1]):
                gradient = by_energies[b, h, s]
                sums_k = by_keys[b, s, h]
                if factored:
                    back_factored(size, gradient, a, key_powers[b, s, h], large, sums, sums_k, shares)
                else:
                    back(size, gradient, query, keys[b, s, h], large, sums, sums_k, shares)
            target, total = by_queries[t, b, h], by_v[b, h]
            for d in range(size):
                target[d] = four * factor[d] * sums[d]
            for d in range(size):
                total[d] += shares[d] + shares[d]


@compiled
def _dot(
    t: int,
    owners: Any,
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
    """A look at t for the rows start … stop; queries (R, H, D), keys (B, S, G, D)."""
    heads, size = queries.shape[1:]
    each = heads // keys.shape[2]
    for row in range(start, stop):
        b = owners[row]
        for h in range(heads):
            query, found = queries[row, h], weights[t, row, h]
            for s in range(keys.shape[1]):
                key = keys[b, s, h // each]
                total = query[0] * key[0]
                for d in range(1, size):
                    total += query[d] * key[d]
                found[s] = total
    _settle(t, owners, mask, sharpening, values, weights, contexts, column, start, stop)


@compiled
def _dot_back(
    t: int, queries: Any, keys: Any, by_energies: Any, by_queries: Any, by_keys: Any, start: int, stop: int
) -> None:
    """by_queries (T, B, H, D) at t; adds to by_keys (B, S, G, D)."""
    heads, size = queries.shape[1:]
    each = heads // keys.shape[2]
    for b in range(start, stop):
        for h in range(heads):
            query, target = queries[b, h], by_queries[t, b, h]
            for d in range(size):
                target[d] = 0
            for s in range(keys.shape[1]):
                gradient, key, sums = by_energies[b, h, s], keys[b, s, h // each], by_keys[b, s, h // each]
                for d in range(size):
                    target[d] += gradient * key[d]
                for d in range(size):
                    sums[d] += gradient * query[d]


@compiled
def _unsettle(
    t: int,
    sharpening: Any,
    values: Any,
    weights: Any,
    by_contexts: Any,
    by_weights: Any,
    by_energies: Any,
    start: int,
    stop: int,
) -> None:
    """by_energies (B, H, S) from by_contexts (T, B, H·V) at t and by_weights (B, H, S) or nothing."""
    heads, positions = weights.shape[2:]
    groups, size = values.shape[2:]
    for b in range(start, stop):
        for h in range(heads):
            weight, found, context = weights[t, b, h], by_energies[b, h], by_contexts[t, b, h * size : (h + 1) * size]
            mean = sharpening - sharpening
            for s in range(positions):
                value = values[b, s, h * groups // heads]
                total = sharpening - sharpening
                for d in range(size):
                    total += context[d] * value[d]
                if len(by_weights):
                    total += by_weights[b, h, s]
                found[s] = total
                mean += weight[s] * total
            for s in range(positions):
                found[s] = sharpening * weight[s] * (found[s] - mean)
