"""Kernels of the hyperbolic tangent: factored, or with an exponential each where that is not exact.

Numerics: the factored form is exact to rounding while e^{2q} and e^{2k} are normal numbers, |q|, |k| ≤ `REACH`; rows
beyond take e^{2(q+k)} itself. Powers are cut at `LARGE`, where tanh is 1 to the last digit. The absolute error is near
ε Σ|v|; where tanh is near 0 the plain formula's is smaller relative to the result.

q and k are flat, with strides of sentence, row and head; their features lie side by side. A group is a head of a
sentence.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import overload

from regard.ops.additive.numba.compiled import compiled, inlined, intrinsic

REACH: dict[Any, Any] = {np.dtype(kind): kind(x) for kind, x in ((np.float32, 43), (np.float64, 350))}
LARGE: dict[Any, Any] = {np.dtype(kind): kind(x) for kind, x in ((np.float32, 1e9), (np.float64, 1e18))}


def _bits(kind: Any) -> Any:
    return ir.IntType(kind.bitwidth)


@intrinsic
def _times_power(context: Any, factor: Any, shifted: Any) -> Any:
    """factor · 2ⁿ, where shifted = n + 1.5 · 2^mantissa: n stands in its last bits and is added to the exponent."""
    mantissa = 23 if factor == types.float32 else 52

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        number, power = (builder.bitcast(x, _bits(factor)) for x in given)
        exponent = builder.shl(power, ir.Constant(_bits(factor), mantissa))
        return builder.bitcast(builder.add(number, exponent), given[0].type)

    return factor(factor, shifted), make


@intrinsic
def _magnitude(context: Any, x: Any) -> Any:
    """The bits of |x| as an integer: larger for a larger |x|, for infinity larger still and for NaN largest."""

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        positive = ir.Constant(_bits(x), 2 ** (x.bitwidth - 1) - 1)
        return builder.and_(builder.bitcast(given[0], _bits(x)), positive)

    return (types.int32 if x == types.float32 else types.int64)(x), make


def _power(x: Any) -> Any:
    """e^{2x} within an ulp: 2ⁿ eᶠ with |f| ≤ ln 2 / 2 and Taylor's polynomial; constant beyond `REACH`."""


def _choose_power(x: Any) -> Any:
    kind: Any = np.float32 if x == types.float32 else np.float64
    degree, mantissa = (7, 23) if x == types.float32 else (13, 52)
    limit, shift = kind(2 * REACH[np.dtype(kind)]), kind(1.5 * 2.0**mantissa)
    inverse, high = kind(1 / math.log(2)), kind(0.693359375 if x == types.float32 else 0.6931471803691238)
    low = kind(math.log(2) - 0.693359375 if x == types.float32 else 1.9082149292705877e-10)
    taylor = tuple(kind(1 / math.factorial(n)) for n in range(degree, -1, -1))

    def power(x: Any) -> Any:
        y = x + x
        y = limit if y > limit else y
        y = -limit if y < -limit else y
        shifted = y * inverse + shift
        n = shifted - shift
        f = (y - n * high) - n * low
        p = taylor[0]
        for i in range(1, degree + 1):
            p = p * f + taylor[i]
        found = _times_power(p, shifted)
        return found if x == x else x

    return power


overload(_power, jit_options={"error_model": "numpy", "fastmath": {"contract"}})(_choose_power)


@inlined
def _powers(x: Any, out: Any, reach: Any) -> bool:
    """out ← e^{2x}, and whether all x are within reach."""
    farthest = _magnitude(reach - reach)
    for d in range(len(x)):
        distance = _magnitude(x[d])
        farthest = distance if distance > farthest else farthest
        out[d] = _power(x[d])
    return farthest <= _magnitude(reach)


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
    """out (groups, T, S) for the units start … stop: each group's steps in chunks. The powers of `width` keys are kept.

    v (heads, D).
    """
    (heads, size), (_, steps, positions) = v.shape, out.shape
    one = large / large
    half = one / (one + one)
    b, a = np.empty((width, size), v.dtype), np.empty(size, v.dtype)
    for unit in range(start, stop):
        group, chunk = unit // chunks, unit % chunks
        sentence, head = group // heads, group % heads
        factor = v[head]
        q_start = sentence * q_strides[0] + head * q_strides[2]
        k_start = sentence * k_strides[0] + head * k_strides[2]
        for first in range(0, positions, width):
            last = min(first + width, positions)
            near = steps > 1
            if near:
                for s in range(first, last):
                    place = k_start + s * k_strides[1]
                    near &= _powers(k[place : place + size], b[s - first], reach)
            for t in range(steps * chunk // chunks, steps * (chunk + 1) // chunks):
                place = q_start + t * q_strides[1]
                row = q[place : place + size]
                if near and _powers(row, a, reach):
                    for s in range(first, last):
                        power = b[s - first]
                        share = one - one
                        for d in range(size):
                            p = a[d] * power[d]
                            share += factor[d] * (half - one / (one + (large if p > large else p)))
                        out[group, t, s] = share + share
                else:
                    for s in range(first, last):
                        place = k_start + s * k_strides[1]
                        key = k[place : place + size]
                        share = one - one
                        for d in range(size):
                            p = _power(row[d] + key[d])
                            share += factor[d] * (half - one / (one + (large if p > large else p)))
                        out[group, t, s] = share + share


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
    by_query: Any,
    by_keys: Any,
    by_v: Any,
    slices: int,
    start: int,
    stop: int,
) -> None:
    """Sums of 4 v g r (1 - r), and of g tanh, for the units start … stop: each group's features in slices.

    g (groups, T, S); by_query (B, T, heads, D); by_keys (B, S, heads, D); by_v (groups, D).
    """
    (heads, size), (_, steps, positions) = v.shape, g.shape
    one = large / large
    half, four = one / (one + one), one + one + one + one
    width = -(-size // slices)
    b = np.empty((positions, width), v.dtype)
    a, sums, shares = np.empty(width, v.dtype), np.empty(width, v.dtype), np.empty(width, v.dtype)
    for unit in range(start, stop):
        group, low, high = unit // slices, size * (unit % slices) // slices, size * (unit % slices + 1) // slices
        sentence, head, size_here = group // heads, group % heads, high - low
        factor = v[head, low:high]
        q_start = sentence * q_strides[0] + head * q_strides[2] + low
        k_start = sentence * k_strides[0] + head * k_strides[2] + low
        near = steps > 1
        if near:
            for s in range(positions):
                place = k_start + s * k_strides[1]
                near &= _powers(k[place : place + size_here], b[s], reach)
        shares[:] = one - one
        for s in range(positions):
            by_keys[sentence, s, head, low:high] = one - one
        for t in range(steps):
            sums[:] = one - one
            place = q_start + t * q_strides[1]
            row = q[place : place + size_here]
            factored = near and _powers(row, a, reach)
            for s in range(positions):
                gradient = g[group, t, s]
                middle = half * gradient
                sums_k = by_keys[sentence, s, head, low:high]
                if factored:
                    power = b[s]
                    for d in range(size_here):
                        p = a[d] * power[d]
                        r = one / (one + (large if p > large else p))
                        u = gradient * r
                        w = u - u * r
                        shares[d] += middle - u
                        sums[d] += w
                        sums_k[d] += w
                else:
                    place = k_start + s * k_strides[1]
                    key = k[place : place + size_here]
                    for d in range(size_here):
                        p = _power(row[d] + key[d])
                        r = one / (one + (large if p > large else p))
                        u = gradient * r
                        w = u - u * r
                        shares[d] += middle - u
                        sums[d] += w
                        sums_k[d] += w
            target = by_query[sentence, t, head, low:high]
            for d in range(size_here):
                target[d] = four * factor[d] * sums[d]
        for s in range(positions):
            target = by_keys[sentence, s, head, low:high]
            for d in range(size_here):
                target[d] *= four * factor[d]
        for d in range(size_here):
            by_v[group, low + d] = shares[d] + shares[d]
