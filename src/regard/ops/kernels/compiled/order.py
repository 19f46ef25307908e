"""Numbers as integers in the same order, whose largest is found by vector instructions, NaN included.

The bits of a float ≥ 0, read as an integer, increase with it: ordinal(x) = bits(x). Those of a float < 0 decrease, so
that ordinal(x) = -bits(|x|). As comparisons of floats with NaN are false, the largest float would depend on the order
of comparisons. The largest integer does not, and may be found lane by lane.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from regard.ops.kernels.compiled import intrinsic, subroutine


def _integer(kind: Any) -> Any:
    return types.int32 if kind == types.float32 else types.int64


def _top(bits: Any) -> Any:
    """The largest integer, the mask of all bits except the sign."""
    return ir.Constant(bits, 2 ** (bits.width - 1) - 1)


def _unsigned(builder: Any, number: Any) -> Any:
    """A number's bits without the sign."""
    return builder.and_(number, _top(number.type))


@intrinsic
def magnitude(context: Any, x: Any) -> Any:
    """An integer that increases with |x|, up to infinity, and is largest for NaN."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return _unsigned(builder, builder.bitcast(arguments[0], ir.IntType(x.bitwidth)))

    return _integer(x)(x), build


@intrinsic
def ordinal(context: Any, x: Any) -> Any:
    """An integer that increases with x: -0 equals 0, and NaN of both signs is above infinity."""
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
    """The number of an ordinal."""
    bits = ir.IntType(x.bitwidth)
    positive = 2 ** (x.bitwidth - 1) - 1
    kind = types.float32 if x == types.int32 else types.float64

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        below = builder.icmp_signed("<", arguments[0], ir.Constant(bits, 0))
        # the bits of |x| from a negative ordinal, with the sign; the highest ordinal has the bits of a NaN
        negative = builder.or_(builder.neg(arguments[0]), ir.Constant(bits, -positive - 1))
        return builder.bitcast(
            builder.select(below, negative, arguments[0]),
            ir.FloatType() if kind == types.float32 else ir.DoubleType(),
        )

    return kind(x), build


@subroutine
def largest(row: Any) -> Any:
    """The largest of at least one number; NaN if there is one."""
    top = ordinal(row[0])
    for d in range(len(row)):
        here = ordinal(row[d])
        top = here if here > top else top
    return from_ordinal(top)
