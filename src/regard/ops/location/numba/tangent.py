"""Kernels of the hyperbolic tangent of x = q + k + u.

    r_sd = 1 / (1 + e^{2 (q_d + k_sd + u_sd)}),  tanh(x) = 1 - 2 r,  tanh'(x) = 4 r (1 - r)
    e_s = Σ_d v_d (1 - 2 r_sd)
    grad_u_sd = 4 g_s v_d r (1 - r),  grad_q_d = Σ_s grad_u_sd,  grad_v_d = Σ_s g_s (1 - 2 r)

There is no factored form as in `regard.ops.additive.numba.tangent`: u differs from row to row and from step to step, so
that each number needs its exponential anyway. Powers are cut at `large`, where tanh is 1 to the last digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.ops.compiled import compiled
from regard.ops.compiled.elementary import power


@compiled
def energies(
    sentences: Any, query: Any, keys: Any, v: Any, large: Any, u: Any, out: Any, start: int, stop: int
) -> None:
    """out (R, H, S) for the rows start … stop of query (R, H, D) and u (H, R, S, D); v (H, D).

    Row r is compared with the keys (B, S, H, D) of sentence `sentences[r]`.
    """
    (heads, positions), size = out.shape[1:], v.shape[1]
    one = large / large  # of the type of the numbers, as a literal would be float64
    half = one / (one + one)
    for r in range(start, stop):
        b = sentences[r]
        for h in range(heads):
            q, factor = query[r, h], v[h]
            for s in range(positions):
                key, location = keys[b, s, h], u[h, r, s]
                # Σ v (½ - r), doubled once after the sum
                share = one - one
                for d in range(size):
                    p = power(q[d] + key[d] + location[d])
                    share += factor[d] * (half - one / (one + (large if p > large else p)))
                out[r, h, s] = share + share


@compiled
def gradients(
    query: Any,
    keys: Any,
    g: Any,
    grad_query: Any,
    grad_v: Any,
    v: Any,
    large: Any,
    u: Any,
    start: int,
    stop: int,
) -> None:
    """grad_u in the place of u (H, R, S, D), its sums over s in grad_query (B, K, H, D).

    grad_v (B, K, H, D) has the share of each row, so that no two threads add to one number. g (B, K, H, S).
    """
    (hypotheses, heads, positions), size = g.shape[1:], v.shape[1]
    one = large / large
    half, two, zero = one / (one + one), one + one, one - one
    ratio = np.empty(size, v.dtype)  # r of a position
    for r in range(start, stop):
        b, k = r // hypotheses, r % hypotheses
        for h in range(heads):
            q, factor, sums, shares = query[b, k, h], v[h], grad_query[b, k, h], grad_v[b, k, h]
            sums[:] = zero
            shares[:] = zero
            for s in range(positions):
                # 2 g: once in 2 g (½ - r) for v, and with another 2 in 4 g v r (1 - r)
                key, location, gradient = keys[b, s, h], u[h, r, s], two * g[b, k, h, s]
                # a loop for each line of the equations: one that writes several rows would have to check that they do
                # not overlap, and might give vector instructions up
                for d in range(size):
                    p = power(q[d] + key[d] + location[d])
                    ratio[d] = one / (one + (large if p > large else p))
                for d in range(size):
                    shares[d] += gradient * (half - ratio[d])
                for d in range(size):
                    location[d] = two * gradient * factor[d] * (ratio[d] - ratio[d] * ratio[d])
                for d in range(size):
                    sums[d] += location[d]
