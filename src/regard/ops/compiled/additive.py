"""Rows of additive energies v · tanh(q + k), and what their gradients are sums of.

With p = e^{2(q+k)} and r = 1 / (1 + p), tanh is 1 - 2 r and its derivative 4 r (1 - r). Each is made twice: of q and k
with an exponential for every number, and `factored`, of e^{2q} and e^{2k}. Powers are cut at `large`.
"""

from __future__ import annotations

from typing import Any

from regard.ops.compiled import part
from regard.ops.compiled.elementary import power


@part
def _raised(x: Any, y: Any) -> Any:
    return power(x + y)


@part
def _multiplied(x: Any, y: Any) -> Any:
    return x * y


def _made(power_of: Any) -> tuple[Any, Any]:
    @part
    def energy(q: Any, k: Any, v: Any, large: Any) -> Any:
        """Σ v tanh."""
        share, half, one = v.dtype.type(0), v.dtype.type(0.5), v.dtype.type(1)
        for d in range(len(v)):
            p = power_of(q[d], k[d])
            share += v[d] * (half - one / (one + (large if p > large else p)))
        return share + share

    @part
    def backward(size: int, gradient: Any, q: Any, k: Any, large: Any, grad_q: Any, grad_k: Any, grad_v: Any) -> None:
        """Adds g r (1 - r) to grad_q and grad_k, and g (½ - r) to grad_v."""
        half, one = grad_v.dtype.type(0.5), grad_v.dtype.type(1)
        middle = half * gradient
        for d in range(size):
            p = power_of(q[d], k[d])
            r = one / (one + (large if p > large else p))
            u = gradient * r
            w = u - u * r
            grad_v[d] += middle - u
            grad_q[d] += w
            grad_k[d] += w

    return energy, backward


energy, backward = _made(_raised)
energy_factored, backward_factored = _made(_multiplied)
