"""Functions of single numbers that several kernels use."""

# mypy: disable-error-code="no-untyped-def,import-untyped,import-not-found,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def one_more(power, LARGE: tl.constexpr):
    """1 + power, cut where tanh is 1 to the last digit; NaN stays.

    Cut, the product of two such sums is finite, which a division shared by two features needs.
    """
    return 1 + tl.where(power > LARGE, LARGE, power)


@triton.jit
def rectify(x, SLOPE: tl.constexpr):
    """x, or SLOPE · x below 0; NaN stays, and -∞ becomes 0 where the slope is 0."""
    if SLOPE == 0:
        low = tl.zeros_like(x)
    else:
        low = x * SLOPE
    return tl.where(x < 0, low, x)
