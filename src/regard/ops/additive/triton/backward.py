"""Gradients on a GPU, a tile of rows and features in every program.

    y = x_rd + others_id,  r = 1 / (1 + e^{2y}),  e^{2y} = a_rd b_id while both are normal numbers
    tanh:       grad_x_rd = v_d Σ_i g_ri · 4 r (1 - r),             grad_v_d = Σ_ri g_ri · 2 (½ - r)
    rectifier:  grad_x_rd = v_d Σ_i g_ri (1 if y > 0 else SLOPE),   grad_v_d = Σ_ri g_ri φ(y)

Every number of grad_x, and every tile's share of grad_v, is summed by one program, so that results are the same from
run to run.
"""

# mypy: disable-error-code="no-untyped-def,import-untyped,import-not-found,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from regard.ops.additive.triton.parts import one_more, rectify


@triton.jit
def rows_kernel(
    x,
    others,
    a,
    b,
    gradient,
    v,
    far,
    grad_x,
    shares,
    heads,
    rows,
    count,
    size,
    group_stride,
    row_stride,
    other_stride,
    TANGENT: tl.constexpr,
    SLOPE: tl.constexpr,
    LARGE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WITH_V: tl.constexpr,
):
    """grad_x (groups, rows, D), where tanh(x + others) is symmetric in its two sides: once for query, once for keys.

    A program for every tile of ROWS × COLUMNS of grad_x; it goes through all `count` others. a and b are e^{2x} and
    e^{2 others}; gradient has strides for groups, rows and others; shares (groups, tiles of rows, D) is each tile's
    part of the gradient of v.
    """
    # which tile; int64, as offsets into all groups may be beyond 2³¹
    down, across = tl.cdiv(rows, ROWS), tl.cdiv(size, COLUMNS)
    tile = tl.program_id(0) % (down * across)
    group = (tl.program_id(0) // (down * across)).to(tl.int64)
    r = tile // across * ROWS + tl.arange(0, ROWS)
    d = tile % across * COLUMNS + tl.arange(0, COLUMNS)
    inside = (r < rows)[:, None] & (d < size)[None, :]
    offset = group * rows * size + r[:, None] * size + d[None, :]
    # pointers of the group; g of the tile's rows is a column (ROWS) at each of the others
    gradient += group * group_stride + r * row_stride
    others += group * count * size + d
    b += group * count * size + d
    factor = tl.load(v + group % heads * size + d, mask=d < size, other=0.0)[None, :]
    # sums over i, kept with the program: no other one adds to them
    total = tl.zeros([ROWS, COLUMNS], dtype=v.dtype.element_ty)
    share = tl.zeros([ROWS, COLUMNS], dtype=v.dtype.element_ty)
    if TANGENT:
        if tl.load(far + group) == 0:
            power = tl.load(a + offset, mask=inside, other=0.0)
            for i in range(0, count):
                g = tl.load(gradient + i * other_stride, mask=r < rows, other=0.0)[:, None]
                p = power * tl.load(b + i * size, mask=d < size, other=0.0)[None, :]
                ratio = 1 / one_more(p, LARGE)  # r (ROWS, COLUMNS)
                total += g * (ratio - ratio * ratio)
                share += g * (0.5 - ratio)
        else:
            # powers are of no use in this group: an exponential for every number
            row = tl.load(x + offset, mask=inside, other=0.0)
            for i in range(0, count):
                g = tl.load(gradient + i * other_stride, mask=r < rows, other=0.0)[:, None]
                y = row + tl.load(others + i * size, mask=d < size, other=0.0)[None, :]
                ratio = 1 / one_more(tl.exp(y + y), LARGE)
                total += g * (ratio - ratio * ratio)
                share += g * (0.5 - ratio)
        # the constants of 4 r (1 - r) and 2 (½ - r), once after the sums
        total *= 4
        share *= 2
    else:
        row = tl.load(x + offset, mask=inside, other=0.0)
        for i in range(0, count):
            g = tl.load(gradient + i * other_stride, mask=r < rows, other=0.0)[:, None]
            y = row + tl.load(others + i * size, mask=d < size, other=0.0)[None, :]
            total += tl.where(y > 0, g, g * SLOPE)
            # selected, since 0 · φ(y) would be NaN beyond the last row where an other is infinite
            share += tl.where((r < rows)[:, None], g * rectify(y, SLOPE), 0.0)
    tl.store(grad_x + offset, total * factor, mask=inside)
    # the tile's rows summed; the caller sums tiles and sentences. Rows beyond the last have g = 0
    if WITH_V:
        tl.store(shares + (group * down + tile // across) * size + d, tl.sum(share, 0), mask=d < size)
