"""Elementary functions for loops that become vector instructions, within a few ulps; NaN stays NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import overload

from regard.ops.compiled import inlined, intrinsic
from regard.ops.compiled.order import magnitude

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


def power(x: Any) -> Any:
    """e^{2x} within an ulp: 2ⁿ eᶠ with |f| ≤ ln 2 / 2 and Taylor's polynomial; constant beyond `REACH`."""


def _choose_power(x: Any) -> Any:
    kind: Any = np.float32 if x == types.float32 else np.float64
    degree, mantissa = (7, 23) if x == types.float32 else (13, 52)
    limit, shift = kind(2 * REACH[np.dtype(kind)]), kind(1.5 * 2.0**mantissa)
    inverse, high = kind(1 / math.log(2)), kind(0.693359375 if x == types.float32 else 0.6931471803691238)
    low = kind(math.log(2) - 0.693359375 if x == types.float32 else 1.9082149292705877e-10)
    taylor = tuple(kind(1 / math.factorial(n)) for n in range(degree, -1, -1))

    def found(x: Any) -> Any:
        y = x + x
        y = limit if y > limit else y
        y = -limit if y < -limit else y
        shifted = y * inverse + shift
        n = shifted - shift
        f = (y - n * high) - n * low
        p = taylor[0]
        for i in range(1, degree + 1):
            p = p * f + taylor[i]
        result = _times_power(p, shifted)
        return result if x == x else x

    return found


overload(power, jit_options={"error_model": "numpy", "fastmath": {"contract"}})(_choose_power)


@inlined
def powers(x: Any, out: Any, reach: Any) -> bool:
    """out ← e^{2x}, and whether all x are within reach."""
    farthest = magnitude(reach - reach)
    for d in range(len(x)):
        distance = magnitude(x[d])
        farthest = distance if distance > farthest else farthest
        out[d] = power(x[d])
    return farthest <= magnitude(reach)


def tanh(x: Any) -> Any:
    """Near 0 Taylor's polynomial, beyond 1 - 2 / (1 + e^{2x}), in which small numbers would drown."""


def _library_tanh(x: Any) -> Any:
    return math.tanh(x)


def _choose_tanh(x: Any) -> Any:
    if x != types.float32:
        return _library_tanh
    kind = np.float32
    one, two, near = kind(1), kind(2), kind(0.4)
    # x - x³/3 + 2x⁵/15 - …: what is left out is below 2e-9 of x
    taylor = tuple(kind(c) for c in (21844 / 6081075, -1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3))

    def found(x: Any) -> Any:
        y = x * x
        p = taylor[0]
        for i in range(1, 6):
            p = p * y + taylor[i]
        far = one - two / (one + power(x))
        return x + x * y * p if abs(x) < near else far

    return found


overload(tanh, jit_options={"error_model": "numpy", "fastmath": {"contract"}})(_choose_tanh)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^{-x})."""


def _choose_sigmoid(x: Any) -> Any:
    kind: Any = np.float32 if x == types.float32 else np.float64
    one, half = kind(1), kind(-0.5)

    def found(x: Any) -> Any:
        return one / (one + power(half * x))

    return found


overload(sigmoid, jit_options={"error_model": "numpy", "fastmath": {"contract"}})(_choose_sigmoid)
