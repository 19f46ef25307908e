"""Numbers as integers of the same order, so that their largest is found by vector instructions, NaN included.

The bits of a float ≥ 0, read as an integer, rise with it: ordinal(x) = bits(x). Those of a float < 0 fall, so that
ordinal(x) = -bits(|x|). A comparison of floats with NaN is always false, so that the largest of a row would depend
on the order of comparisons. That of integers does not, and may be taken lane by lane.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from regard.ops.kernels.compiled import intrinsic, subroutine


def _integer(kind: Any) -> Any:
    return types.int32 if kind == types.float32 else types.int64


def _top(bits: Any) -> Any:
    """The largest integer, which is also the mask of all bits but the sign."""
    return ir.Constant(bits, 2 ** (bits.width - 1) - 1)


def _unsigned(builder: Any, number: Any) -> Any:
    """A number's bits but for the sign."""
    return builder.and_(number, _top(number.type))


@intrinsic
def magnitude(context: Any, x: Any) -> Any:
    """An integer that rises with |x|: that of infinity is larger, and that of NaN larger still."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return _unsigned(builder, builder.bitcast(arguments[0], ir.IntType(x.bitwidth)))

    return _integer(x)(x), build


@intrinsic
def ordinal(context: Any, x: Any) -> Any:
    """An integer that rises with x: -0 equals 0, and NaN is above infinity whatever its sign."""
    bits = ir.IntType(x.bitwidth)
    infinity = 0x7F800000 if x == types.float32 else 0x7FF0000000000000

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        number = builder.bitcast(arguments[0], bits)
        size = _unsigned(builder, number)
        below = builder.icmp_signed("<", number, ir.Constant(bits, 0))
        ordered = builder.select(below, builder.neg(size), size)  # -0 has size 0, whose negative is 0
        # the bits of NaN, without the sign, are above those of infinity
        is_nan = builder.icmp_signed(">", size, ir.Constant(bits, infinity))
        return builder.select(is_nan, _top(bits), ordered)

    return _integer(x)(x), build


@intrinsic
def from_ordinal(context: Any, x: Any) -> Any:
    """The number that has an ordinal."""
    bits = ir.IntType(x.bitwidth)
    positive = 2 ** (x.bitwidth - 1) - 1
    kind = types.float32 if x == types.int32 else types.float64

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        below = builder.icmp_signed("<", arguments[0], ir.Constant(bits, 0))
        # bits of |x| from the negative ordinal, and the bit of the sign; the highest ordinal has the bits of a NaN
        negative = builder.or_(builder.neg(arguments[0]), ir.Constant(bits, -positive - 1))
        return builder.bitcast(
            builder.select(below, negative, arguments[0]),
            ir.FloatType() if kind == types.float32 else ir.DoubleType(),
        )

    return kind(x), build


@subroutine
def largest(row: Any) -> Any:
    """Of one number or more; NaN where there is one."""
    top = ordinal(row[0])
    for d in range(len(row)):
        here = ordinal(row[d])
        top = here if here > top else top
    return from_ordinal(top)
