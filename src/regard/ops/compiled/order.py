"""Numbers as integers of the same order, so that their largest is found by vector instructions, NaN included."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from regard.ops.compiled import intrinsic, part


def _integer(kind: Any) -> Any:
    return types.int32 if kind == types.float32 else types.int64


def _top(bits: Any) -> Any:
    return ir.Constant(bits, 2 ** (bits.width - 1) - 1)


def _unsigned(builder: Any, number: Any) -> Any:
    """A number's bits but for the sign."""
    return builder.and_(number, _top(number.type))


@intrinsic
def magnitude(context: Any, x: Any) -> Any:
    """An integer that rises with |x|: that of infinity is larger, and that of NaN larger still."""

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        return _unsigned(builder, builder.bitcast(given[0], ir.IntType(x.bitwidth)))

    return _integer(x)(x), make


@intrinsic
def rank(context: Any, x: Any) -> Any:
    """An integer that rises with x: -0 equals 0, and NaN is above infinity whatever its sign."""
    bits = ir.IntType(x.bitwidth)
    infinity = 0x7F800000 if x == types.float32 else 0x7FF0000000000000

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        number = builder.bitcast(given[0], bits)
        size = _unsigned(builder, number)
        below = builder.icmp_signed("<", number, ir.Constant(bits, 0))
        ordered = builder.select(below, builder.neg(size), size)
        lost = builder.icmp_signed(">", size, ir.Constant(bits, infinity))
        return builder.select(lost, _top(bits), ordered)

    return _integer(x)(x), make


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


@part
def largest(row: Any) -> Any:
    """Of one number or more; NaN where there is one."""
    found = rank(row[0])
    for d in range(len(row)):
        mine = rank(row[d])
        found = mine if mine > found else found
    return ranked(found)
