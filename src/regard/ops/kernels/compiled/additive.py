"""Rows of additive energies v · tanh(q + k), and the terms of their gradients.

    p_d = e^{2(q_d + k_d)},  r_d = 1 / (1 + p_d),  tanh(q_d + k_d) = 1 - 2 r_d,  tanh' = 4 r_d (1 - r_d)

Each function exists twice: `energy` and `backward` take q and k, with one exponential per number; the `factored` ones
take e^{2q} and e^{2k}, whose product is p. Their arguments are rows of D features.

Powers are clamped at `large`, where tanh is 1 to the last digit; NaN stays.
"""

from __future__ import annotations

from typing import Any

from regard.ops.kernels.compiled import subroutine
from regard.ops.kernels.compiled.elementary import power


@subroutine
def _power_of_sum(q: Any, k: Any) -> Any:
    return power(q + k)


@subroutine
def _product_of_powers(q_power: Any, k_power: Any) -> Any:
    return q_power * k_power


def _kernels(power_of: Any) -> tuple[Any, Any]:
    @subroutine
    def energy(q: Any, k: Any, v: Any, large: Any) -> Any:
        """Σ_d v_d tanh."""
        share, half, one = v.dtype.type(0), v.dtype.type(0.5), v.dtype.type(1)
        # Σ v (½ - r), times 2 after the sum: tanh = 2 (½ - r)
        for d in range(len(v)):
            p = power_of(q[d], k[d])
            share += v[d] * (half - one / (one + (large if p > large else p)))
        return share + share

    @subroutine
    def backward(size: int, gradient: Any, q: Any, k: Any, large: Any, grad_q: Any, grad_k: Any, grad_v: Any) -> None:
        """Adds g r (1 - r) to grad_q and grad_k, and g (½ - r) to grad_v; the caller multiplies by 4 v and by 2."""
        half, one = grad_v.dtype.type(0.5), grad_v.dtype.type(1)
        half_gradient = half * gradient
        for d in range(size):
            p = power_of(q[d], k[d])
            r = one / (one + (large if p > large else p))
            u = gradient * r
            w = u - u * r  # g r (1 - r), for q and k
            grad_v[d] += half_gradient - u
            grad_q[d] += w
            grad_k[d] += w

    return energy, backward


energy, backward = _kernels(_power_of_sum)
energy_factored, backward_factored = _kernels(_product_of_powers)
