"""Kernels of the hyperbolic tangent of q + k + u.

tanh(x) = 1 - 2 r and its derivative 4 r (1 - r) with r = 1 / (1 + e^{2x}), as in `regard.ops.additive.numba.tangent`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.ops.compiled import compiled
from regard.ops.compiled.elementary import power


@compiled
def energies(query: Any, keys: Any, v: Any, large: Any, u: Any, out: Any, start: int, stop: int) -> None:
    """out (B, K, H, S) for the rows start … stop of query (B, K, H, D), keys (B, S, H, D), v (H, D), u (H, R, S, D)."""
    (hypotheses, heads, positions), size = out.shape[1:], v.shape[1]
    one = large / large
    half = one / (one + one)
    for r in range(start, stop):
        b, k = r // hypotheses, r % hypotheses
        for h in range(heads):
            asked, factor = query[b, k, h], v[h]
            for s in range(positions):
                key, location = keys[b, s, h], u[h, r, s]
                share = one - one
                for d in range(size):
                    p = power(asked[d] + key[d] + location[d])
                    share += factor[d] * (half - one / (one + (large if p > large else p)))
                out[b, k, h, s] = share + share


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
    """Puts 4 v g r (1 - r) in the place of u, its sums in grad_query (B, K, H, D), each row's share in grad_v."""
    (hypotheses, heads, positions), size = g.shape[1:], v.shape[1]
    one = large / large
    half, two, zero = one / (one + one), one + one, one - one
    found = np.empty(size, v.dtype)
    for r in range(start, stop):
        b, k = r // hypotheses, r % hypotheses
        for h in range(heads):
            asked, factor, sums, shares = query[b, k, h], v[h], grad_query[b, k, h], grad_v[b, k, h]
            sums[:] = zero
            shares[:] = zero
            for s in range(positions):
                key, location, gradient = keys[b, s, h], u[h, r, s], two * g[b, k, h, s]
                for d in range(size):
                    p = power(asked[d] + key[d] + location[d])
                    found[d] = one / (one + (large if p > large else p))
                for d in range(size):
                    shares[d] += gradient * (half - found[d])
                for d in range(size):
                    location[d] = two * gradient * factor[d] * (found[d] - found[d] * found[d])
                for d in range(size):
                    sums[d] += location[d]
