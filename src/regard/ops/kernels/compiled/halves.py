"""Numbers of bfloat16 in loops that compute in float32: an array of them is one of their bits, uint16.

`widen` and `narrow` leave float32 as it is, so that one kernel serves both.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from regard.ops.kernels.compiled import intrinsic

I16, I32, F32 = ir.IntType(16), ir.IntType(32), ir.FloatType()
QUIET_NAN = 0x7FC0


@intrinsic
def widen(context: Any, number: Any) -> Any:
    """The number in float32."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        if number == types.float32:
            return arguments[0]
        return builder.bitcast(builder.shl(builder.zext(arguments[0], I32), ir.Constant(I32, 16)), F32)

    return types.float32(number), build


@intrinsic
def narrow(context: Any, number: Any, like: Any) -> Any:
    """A float32 as a number of the type of `like`: the nearest, of two the even one; NaN stays NaN."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        if like == types.float32:
            return arguments[0]
        bits = builder.bitcast(arguments[0], I32)
        upper = builder.lshr(bits, ir.Constant(I32, 16))
        half = builder.add(builder.and_(upper, ir.Constant(I32, 1)), ir.Constant(I32, 0x7FFF))
        rounded = builder.trunc(builder.lshr(builder.add(bits, half), ir.Constant(I32, 16)), I16)
        is_nan = builder.fcmp_unordered("uno", arguments[0], arguments[0])
        return builder.select(is_nan, ir.Constant(I16, QUIET_NAN), rounded)

    return like(number, like), build
