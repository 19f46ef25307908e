"""Numbers as integers of the same order, so that their largest is found by vector instructions, NaN included."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from regard.ops.compiled import intrinsic


@intrinsic
def rank(context: Any, x: Any) -> Any:
    """An integer that rises with x: -0 equals 0, and NaN is above infinity whatever its sign."""
    bits = ir.IntType(x.bitwidth)
    positive = 2 ** (x.bitwidth - 1) - 1
    infinity = 0x7F800000 if x == types.float32 else 0x7FF0000000000000

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        number = builder.bitcast(given[0], bits)
        size = builder.and_(number, ir.Constant(bits, positive))
        below = builder.icmp_signed("<", number, ir.Constant(bits, 0))
        ordered = builder.select(below, builder.neg(size), size)
        lost = builder.icmp_signed(">", size, ir.Constant(bits, infinity))
        return builder.select(lost, ir.Constant(bits, positive), ordered)

    return (types.int32 if x == types.float32 else types.int64)(x), make


@intrinsic
def ranked(context: Any, found: Any) -> Any:
    """The number of a rank."""
    bits = ir.IntType(found.bitwidth)
    positive = 2 ** (found.bitwidth - 1) - 1
    kind = types.float32 if found == types.int32 else types.float64

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        below = builder.icmp_signed("<", given[0], ir.Constant(bits, 0))
        negative = builder.or_(builder.neg(given[0]), ir.Constant(bits, -positive - 1))
        return builder.bitcast(
            builder.select(below, negative, given[0]), ir.FloatType() if kind == types.float32 else ir.DoubleType()
        )

    return kind(found), make
