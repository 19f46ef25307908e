"""A kernel of nothing but powers of two: what the units of a GPU that make transcendental functions can do."""

# mypy: disable-error-code="no-untyped-def,import-untyped,import-not-found,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def powers_of_two(x_ptr, steps, WIDTH: tl.constexpr):
    """x becomes 2^-x, `steps` times, in registers."""
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    x = tl.load(x_ptr + at)
    for _ in range(steps):
        x = tl.exp2(-x)
    tl.store(x_ptr + at, x)
