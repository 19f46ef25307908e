"""Kernels of tanh: factored, or with one exponential per number where the factors are not exact.

    e_tj = Σ_d v_d tanh(q_td + k_jd) = Σ_d v_d (1 - 2 r),  r = 1 / (1 + e^{2 q_td} e^{2 k_jd})
    grad_q_td = 4 v_d Σ_j g_tj r (1 - r),  grad_k_jd = 4 v_d Σ_t g_tj r (1 - r),  grad_v_d = Σ_tj g_tj (1 - 2 r)

a = e^{2q} and b = e^{2k} are computed once per row, so that an element costs one product, one addition and its share of
a division. The backward kernel computes r again, as storing it would take T·S·D numbers.

Numerics: the factored form is exact to rounding if e^{2q} and e^{2k} are normal numbers, |q|, |k| ≤ `REACH`; other rows
use e^{2(q+k)}. Powers are clamped at `LARGE`, where tanh is 1 to the last digit. The absolute error is near ε Σ|v|;
where tanh is near 0, the relative error is larger than that of the formula.

q and k are flat, with strides of sentence, row and head, and contiguous features. A group is a head of a sentence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.ops.kernels.compiled import compiled
from regard.ops.kernels.compiled.additive import backward, backward_factored, energy, energy_factored
from regard.ops.kernels.compiled.elementary import LARGE, REACH, powers

__all__ = ["LARGE", "REACH", "energies", "gradients"]


@compiled
def energies(
    q: Any,
    q_strides: Any,
    k: Any,
    k_strides: Any,
    v: Any,
    reach: Any,
    large: Any,
    out: Any,
    width: int,
    chunks: int,
    start: int,
    stop: int,
) -> None:
    """out (groups, T, S) for the units start … stop, a unit being one of `chunks` equal parts of a group's steps.

    v (heads, D). Keys are in blocks of `width`, whose powers fit the second cache; for each block the unit's steps
    compute their own powers.
    """
    (heads, size), (_, steps, positions) = v.shape, out.shape
    # e^{2k} (width, D) of a block of keys, e^{2q} (D) of a step
    b, a = np.empty((width, size), v.dtype), np.empty(size, v.dtype)
    for unit in range(start, stop):
        group, chunk = unit // chunks, unit % chunks
        sentence, head = group // heads, group % heads
        factor = v[head]
        q_start = sentence * q_strides[0] + head * q_strides[2]
        k_start = sentence * k_strides[0] + head * k_strides[2]
        for first in range(0, positions, width):
            last = min(first + width, positions)
            # powers of the block's keys, for all steps of the unit; none if a key is beyond reach
            in_reach = steps > 1  # a single step would use the powers of the keys once
            if in_reach:
                for s in range(first, last):
                    offset = k_start + s * k_strides[1]
                    in_reach &= powers(k[offset : offset + size], b[s - first], reach)
            for t in range(steps * chunk // chunks, steps * (chunk + 1) // chunks):
                offset = q_start + t * q_strides[1]
                row = q[offset : offset + size]
                if in_reach and powers(row, a, reach):
                    for s in range(first, last):
                        out[group, t, s] = energy_factored(a, b[s - first], factor, large)
                else:
                    for s in range(first, last):
                        offset = k_start + s * k_strides[1]
                        out[group, t, s] = energy(row, k[offset : offset + size], factor, large)


@compiled
def gradients(
    q: Any,
    q_strides: Any,
    k: Any,
    k_strides: Any,
    v: Any,
    reach: Any,
    large: Any,
    g: Any,
    grad_query: Any,
    grad_keys: Any,
    grad_v: Any,
    slices: int,
    start: int,
    stop: int,
) -> None:
    """The gradients for the units start … stop, a unit being one of `slices` parts of a group's features.

    As units have different features, no two add to the same sum over steps or positions, and results do not depend on
    the number of threads.

    g (groups, T, S); grad_query (B, T, heads, D); grad_keys (B, S, heads, D); grad_v (groups, D).
    """
    (heads, size), (_, steps, positions) = v.shape, g.shape
    zero, four = v.dtype.type(0), v.dtype.type(4)
    width = -(-size // slices)
    # e^{2k} (S, width) of all keys in a slice of features; e^{2q}, and sums for q and v, of one row (width)
    b = np.empty((positions, width), v.dtype)
    a, sums, shares = np.empty(width, v.dtype), np.empty(width, v.dtype), np.empty(width, v.dtype)
    for unit in range(start, stop):
        group, low, high = unit // slices, size * (unit % slices) // slices, size * (unit % slices + 1) // slices
        sentence, head, size_here = group // heads, group % heads, high - low
        factor = v[head, low:high]
        q_start = sentence * q_strides[0] + head * q_strides[2] + low
        k_start = sentence * k_strides[0] + head * k_strides[2] + low
        in_reach = steps > 1  # as in `energies`
        if in_reach:
            for s in range(positions):
                offset = k_start + s * k_strides[1]
                in_reach &= powers(k[offset : offset + size_here], b[s], reach)
        # sums of g r (1 - r) over j for q (`sums`), over t for k (in `grad_keys`), of g (½ - r) for v (`shares`)
        shares[:] = zero
        for s in range(positions):
            grad_keys[sentence, s, head, low:high] = zero
        for t in range(steps):
            sums[:] = zero
            offset = q_start + t * q_strides[1]
            row = q[offset : offset + size_here]
            factored = in_reach and powers(row, a, reach)
            for s in range(positions):
                gradient = g[group, t, s]
                sums_k = grad_keys[sentence, s, head, low:high]
                if factored:
                    backward_factored(size_here, gradient, a, b[s], large, sums, sums_k, shares)
                else:
                    offset = k_start + s * k_strides[1]
                    backward(size_here, gradient, row, k[offset : offset + size_here], large, sums, sums_k, shares)
            # grad_q_t = 4 v Σ_j g r (1 - r)
            target = grad_query[sentence, t, head, low:high]
            for d in range(size_here):
                target[d] = four * factor[d] * sums[d]
        # times 4 v_d, once after the sums
        for s in range(positions):
            target = grad_keys[sentence, s, head, low:high]
            for d in range(size_here):
                target[d] *= four * factor[d]
        for d in range(size_here):
            grad_v[group, low + d] = shares[d] + shares[d]  # Σ g (1 - 2 r); the caller sums over sentences
