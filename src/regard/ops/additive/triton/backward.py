"""Gradients on a GPU: Σ g v · 4 r (1 - r), and Σ g tanh for v."""

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
    part of the gradient by v.
    """
    down, across = tl.cdiv(rows, ROWS), tl.cdiv(size, COLUMNS)
    tile = tl.program_id(0) % (down * across)
    group = (tl.program_id(0) // (down * across)).to(tl.int64)
    r = tile // across * ROWS + tl.arange(0, ROWS)
    d = tile % across * COLUMNS + tl.arange(0, COLUMNS)
    inside = (r < rows)[:, None] & (d < size)[None, :]
    place = group * rows * size + r[:, None] * size + d[None, :]
    gradient += group * group_stride + r * row_stride
    others += group * count * size + d
    b += group * count * size + d
    factor = tl.load(v + group % heads * size + d, mask=d < size, other=0.0)[None, :]
    total = tl.zeros([ROWS, COLUMNS], dtype=v.dtype.element_ty)
    share = tl.zeros([ROWS, COLUMNS], dtype=v.dtype.element_ty)
    if TANGENT:
        if tl.load(far + group) == 0:
            power = tl.load(a + place, mask=inside, other=0.0)
            for i in range(0, count):
                g = tl.load(gradient + i * other_stride, mask=r < rows, other=0.0)[:, None]
                p = power * tl.load(b + i * size, mask=d < size, other=0.0)[None, :]
                ratio = 1 / one_more(p, LARGE)
                total += g * (ratio - ratio * ratio)
                share += g * (0.5 - ratio)
        else:
            own = tl.load(x + place, mask=inside, other=0.0)
            for i in range(0, count):
                g = tl.load(gradient + i * other_stride, mask=r < rows, other=0.0)[:, None]
                y = own + tl.load(others + i * size, mask=d < size, other=0.0)[None, :]
                ratio = 1 / one_more(tl.exp(y + y), LARGE)
                total += g * (ratio - ratio * ratio)
                share += g * (0.5 - ratio)
        total *= 4
        share *= 2
    else:
        own = tl.load(x + place, mask=inside, other=0.0)
        for i in range(0, count):
            g = tl.load(gradient + i * other_stride, mask=r < rows, other=0.0)[:, None]
            y = own + tl.load(others + i * size, mask=d < size, other=0.0)[None, :]
            total += tl.where(y > 0, g, g * SLOPE)
            share += g * rectify(y, SLOPE)
    tl.store(grad_x + place, total * factor, mask=inside)
    if WITH_V:
        tl.store(shares + (group * down + tile // across) * size + d, tl.sum(share, 0), mask=d < size)
