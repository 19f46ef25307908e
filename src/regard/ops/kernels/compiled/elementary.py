"""Elementary functions for loops that become vector instructions, within a few ulps; NaN stays NaN.

They have no branches, which vector instructions need: of a function with two forms both are computed and one is
selected. They may be fused (`contract`) but not reordered: `(y + shift) - shift` rounds y to a whole number, and would
be simplified to y.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import overload

from regard.ops.kernels.compiled import inlined, intrinsic
from regard.ops.kernels.compiled.order import magnitude

REACH: dict[Any, Any] = {np.dtype(kind): kind(x) for kind, x in ((np.float32, 43), (np.float64, 350))}
"""Up to this |x|, e^{2x} and e^{-2x} are normal numbers."""
LARGE: dict[Any, Any] = {np.dtype(kind): kind(x) for kind, x in ((np.float32, 1e9), (np.float64, 1e18))}
"""From this p on 2 / (1 + p) is below half an ulp of 1, so that tanh = 1 - 2 / (1 + p) is 1."""


def _bits(kind: Any) -> Any:
    return ir.IntType(kind.bitwidth)


@intrinsic
def _times_power(context: Any, factor: Any, shifted: Any) -> Any:
    """factor · 2ⁿ, where shifted = n + 1.5 · 2^mantissa: its last bits are n, which is added to the exponent."""
    mantissa = 23 if factor == types.float32 else 52

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        number, power = (builder.bitcast(x, _bits(factor)) for x in arguments)
        # shifted to the bits of the exponent
        exponent = builder.shl(power, ir.Constant(_bits(factor), mantissa))
        return builder.bitcast(builder.add(number, exponent), arguments[0].type)

    return factor(factor, shifted), build


def power(x: Any) -> Any:
    """e^{2x} within an ulp: 2ⁿ eᶠ with |f| ≤ ln 2 / 2 and Taylor's polynomial; constant beyond `REACH`."""


def _choose_power(x: Any) -> Any:
    kind: Any = np.float32 if x == types.float32 else np.float64
    degree, mantissa = (7, 23) if x == types.float32 else (13, 52)
    limit, shift = kind(2 * REACH[np.dtype(kind)]), kind(1.5 * 2.0**mantissa)
    # ln 2 = high + low, where high has few digits, so that n · high is exact and f keeps its digits
    inverse, high = kind(1 / math.log(2)), kind(0.693359375 if x == types.float32 else 0.6931471803691238)
    low = kind(math.log(2) - 0.693359375 if x == types.float32 else 1.9082149292705877e-10)
    taylor = tuple(kind(1 / math.factorial(n)) for n in range(degree, -1, -1))

    def exponential(x: Any) -> Any:
        # clamped to ± 2 · `REACH`, where 2ⁿ is a normal number
        y = x + x
        y = limit if y > limit else y
        y = -limit if y < -limit else y
        # y = n ln 2 + f: numbers near `shift` are 1 apart, so the sum rounds y / ln 2 to n
        shifted = y * inverse + shift
        n = shifted - shift
        f = (y - n * high) - n * low
        # eᶠ by Horner's rule, then 2ⁿ
        p = taylor[0]
        for i in range(1, degree + 1):
            p = p * f + taylor[i]
        result = _times_power(p, shifted)
        return result if x == x else x  # NaN

    return exponential


overload(power, jit_options={"error_model": "numpy", "fastmath": {"contract"}})(_choose_power)


@inlined
def powers(x: Any, out: Any, reach: Any) -> bool:
    """out ← e^{2x}; returns whether all x are within reach, which NaN is not."""
    # |x| as integers in the same order, whose largest is found by vector instructions, NaN included
    farthest = magnitude(reach - reach)
    for d in range(len(x)):
        distance = magnitude(x[d])
        farthest = distance if distance > farthest else farthest
        out[d] = power(x[d])
    return farthest <= magnitude(reach)


def tanh(x: Any) -> Any:
    """Near 0 Taylor's polynomial, otherwise 1 - 2 / (1 + e^{2x}), which would lose the digits of a small x.

    For float64 the C library's, one number at a time.
    """


def _library_tanh(x: Any) -> Any:
    return math.tanh(x)


def _choose_tanh(x: Any) -> Any:
    if x != types.float32:
        return _library_tanh
    kind = np.float32
    one, two, near = kind(1), kind(2), kind(0.4)
    # x - x³/3 + 2x⁵/15 - …, with a relative error below 4e-9
    taylor = tuple(kind(c) for c in (21844 / 6081075, -1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3))

    def tangent(x: Any) -> Any:
        y = x * x
        p = taylor[0]
        for i in range(1, 6):
            p = p * y + taylor[i]
        far = one - two / (one + power(x))
        return x + x * y * p if abs(x) < near else far

    return tangent


overload(tanh, jit_options={"error_model": "numpy", "fastmath": {"contract"}})(_choose_tanh)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^{-x})."""


def _choose_sigmoid(x: Any) -> Any:
    kind: Any = np.float32 if x == types.float32 else np.float64
    one, minus_half = kind(1), kind(-0.5)

    def logistic(x: Any) -> Any:
        return one / (one + power(minus_half * x))  # `power` doubles its argument: e^{2 (-x/2)}

    return logistic


overload(sigmoid, jit_options={"error_model": "numpy", "fastmath": {"contract"}})(_choose_sigmoid)
