"""e^{2x} of all rows, laid out as the kernels read them.

    out_rc = e^{2 x_rc},  far_group = 1 if any |x_rc| > REACH, or is NaN, in the group

The kernels read `far` before they read `out`: a group beyond reach has powers that are of no use.
"""

# mypy: disable-error-code="no-untyped-def,import-untyped,import-not-found,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def powers_kernel(
    x,
    out,
    far,
    rows,
    size,
    row_stride,
    column_stride,
    REACH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """out ← e^{2x} for x (groups, rows, size), and far[group] ← 1 where an x is beyond reach or NaN.

    A program for every `ROWS` rows of a group. The strides of `out` put rows or features side by side.
    """
    # int64: an offset into all groups may be beyond 2³¹
    tiles = tl.cdiv(rows, ROWS)
    group = (tl.program_id(0) // tiles).to(tl.int64)
    r = tl.program_id(0) % tiles * ROWS + tl.arange(0, ROWS)[:, None]
    # one load of a tile serves the power and the test; NaN compares false and so is beyond reach
    beyond = tl.zeros([ROWS, COLUMNS], dtype=tl.int32)
    for start in range(0, size, COLUMNS):
        c = start + tl.arange(0, COLUMNS)[None, :]
        inside = (r < rows) & (c < size)
        value = tl.load(x + group * rows * size + r * size + c, mask=inside, other=0.0)  # (ROWS, COLUMNS)
        beyond = tl.where(tl.abs(value) <= REACH, beyond, 1)
        to = out + group * rows * size + r * row_stride + c * column_stride
        tl.store(to, tl.exp(value + value), mask=inside)
    # several programs have rows of one group: none may overwrite another's 1 with its 0
    tl.atomic_max(far + group, tl.max(tl.max(beyond, 1), 0))
