"""Kernels of the rectifier max(x, 0) and the leaky one; arguments as in `regard.ops.kernels.additive_tangent`.

    x = q_td + k_jd,  φ(x) = x if x > 0 else slope · x,  w_tj = g_tj if x > 0 else slope · g_tj
    e_tj = Σ_d v_d φ(x),  grad_q_td = v_d Σ_j w_tj,  grad_k_jd = v_d Σ_t w_tj,  grad_v_d = Σ_tj w_tj x

The backward kernel computes x again, so that nothing of size T·S·D is stored.
"""

from __future__ import annotations

from typing import Any

from regard.ops.kernels.compiled import compiled


@compiled
def energies(
    q: Any, q_strides: Any, k: Any, k_strides: Any, v: Any, slope: Any, out: Any, chunks: int, start: int, stop: int
) -> None:
    """out (groups, T, S) for the units start … stop: each group's steps in chunks. v (heads, D)."""
    (heads, size), (_, steps, positions) = v.shape, out.shape
    zero = slope - slope
    for unit in range(start, stop):
        group, chunk = unit // chunks, unit % chunks
        sentence, head = group // heads, group % heads
        factor = v[head]
        # rows of the flat q and k by strides
        for t in range(steps * chunk // chunks, steps * (chunk + 1) // chunks):
            offset = sentence * q_strides[0] + t * q_strides[1] + head * q_strides[2]
            row = q[offset : offset + size]
            for s in range(positions):
                offset = sentence * k_strides[0] + s * k_strides[1] + head * k_strides[2]
                key = k[offset : offset + size]
                total = zero
                # two loops: without a slope 0 is selected, as 0 · x would be NaN for x = -∞
                if slope == zero:
                    for d in range(size):
                        x = row[d] + key[d]
                        total += factor[d] * (zero if x < zero else x)
                else:
                    for d in range(size):
                        x = row[d] + key[d]
                        total += factor[d] * (slope * x if x < zero else x)
                out[group, t, s] = total


@compiled
def gradients(
    q: Any,
    q_strides: Any,
    k: Any,
    k_strides: Any,
    v: Any,
    slope: Any,
    g: Any,
    grad_query: Any,
    grad_keys: Any,
    grad_v: Any,
    slices: int,
    start: int,
    stop: int,
) -> None:
    """The gradients for the units start … stop, slices of each group's features, so that no two add to the same number.

    g (groups, T, S); grad_query (B, T, heads, D); grad_keys (B, S, heads, D); grad_v (groups, D).
    """
    (heads, size), (_, steps, positions) = v.shape, g.shape
    zero = slope - slope
    for unit in range(start, stop):
        group, low, high = unit // slices, size * (unit % slices) // slices, size * (unit % slices + 1) // slices
        sentence, head = group // heads, group % heads
        # sums are collected in the results, whose features belong to this unit only
        factor, shares = v[head, low:high], grad_v[group, low:high]
        shares[:] = zero
        for s in range(positions):
            grad_keys[sentence, s, head, low:high] = zero
        for t in range(steps):
            offset = sentence * q_strides[0] + t * q_strides[1] + head * q_strides[2]
            row = q[offset + low : offset + high]
            sums = grad_query[sentence, t, head, low:high]
            sums[:] = zero
            for s in range(positions):
                gradient = g[group, t, s]
                flat = slope * gradient  # g φ'(x) where x ≤ 0
                offset = sentence * k_strides[0] + s * k_strides[1] + head * k_strides[2]
                key = k[offset + low : offset + high]
                sums_k = grad_keys[sentence, s, head, low:high]
                # w, summed over j for q, over t for k, and w x = g φ(x) over both for v; two loops as for the energies
                if slope == zero:
                    for d in range(high - low):
                        x = row[d] + key[d]
                        w = zero if x <= zero else gradient
                        sums[d] += w
                        sums_k[d] += w
                        shares[d] += gradient * (zero if x < zero else x)
                else:
                    for d in range(high - low):
                        x = row[d] + key[d]
                        w = gradient if x > zero else flat
                        sums[d] += w
                        sums_k[d] += w
                        shares[d] += w * x
            # times v_d, once after the sums
            for d in range(high - low):
                sums[d] *= factor[d]
        for s in range(positions):
            sums_k = grad_keys[sentence, s, head, low:high]
            for d in range(high - low):
                sums_k[d] *= factor[d]
