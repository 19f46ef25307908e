"""Batch normalisation of real rows as compiled loops, of float32 or bfloat16, computed in float32 with sums in float64.

    forward:   d = x - mean,  a = w / σ with σ = √(variance + ε),  p = a d + b + r,  y = min(max(p, 0), top)
    backward:  g = grad_y where 0 < p < top, else 0;  grad_r = g,  grad_b = Σ g,  grad_w = Σ g d / σ
               grad_x = a (g - Σ g / N - d (Σ g d) / (N σ²)),  or a g if the statistics are given

The forward pass reads x once for the sums and once for y. The backward pass reads x and grad_y once for the sums and
once for grad_x. Without a residual p is computed again; with one g follows from y, and is stored as grad_r, from which
grad_x is computed. The sums of blocks of rows are added in order, so that no result depends on the number of threads.

Arrays of bfloat16 are those of their bits, uint16. `widen` and `narrow` leave float32 as it is, so that one kernel
serves both types.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from torch import Tensor

from regard.ops.kernels.compiled import compiled, intrinsic, subroutine
from regard.ops.threads import parallel_for

BLOCK = 1 << 14
"""Numbers of a block: its x, y and gradient fit a core's cache."""
STRIP = 256
"""Numbers of a strip: adjacent real rows that one loop computes, as loops over short rows would be slow. Arrays of
features are repeated for every row of a strip."""
I16, I32, F32 = ir.IntType(16), ir.IntType(32), ir.FloatType()
QUIET_NAN = 0x7FC0


@intrinsic
def widen(context: Any, number: Any) -> Any:
    """A number in float32."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        if number == types.float32:
            return arguments[0]
        return builder.bitcast(builder.shl(builder.zext(arguments[0], I32), ir.Constant(I32, 16)), F32)

    return types.float32(number), build


@intrinsic
def narrow(context: Any, number: Any, like: Any) -> Any:
    """A float32 rounded to the type of `like`, half to even; NaN stays NaN."""

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


class RealRows:
    """The real rows of an array (R, F), in blocks of rows ordered with real rows first.

    Args:
        mask: (R,), True at real rows; all if None.
        shape: (R, F).
    """

    def __init__(self, mask: Tensor | None, shape: torch.Size) -> None:
        self.rows, self.size = shape
        self.height = max(8, BLOCK // self.size)
        self.blocks = -(-self.rows // self.height)
        self.strip = max(1, STRIP // self.size)
        self.order = np.empty(self.rows, np.int64)
        self.counts = np.empty(self.blocks, np.int64)
        real = np.ones(0, np.bool_) if mask is None else mask.contiguous().numpy()
        _sort(real, self.height, self.order, self.counts)
        self.count = int(self.counts.sum())

    def run(self, kernel: Any, *arguments: Any) -> None:
        """Runs a kernel over all blocks."""
        work = 2 * self.rows * self.size
        parallel_for(kernel, (self.order, self.counts, self.height, *arguments), self.blocks, work)

    def repeated(self, *features: Any) -> list[Any]:
        """Arrays (F,) repeated for every row of a strip."""
        return [np.tile(x, self.strip) for x in features]


def statistics(rows: RealRows, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (F,) of the real rows of x (R, F), in float64."""
    sums = np.empty((rows.blocks, 2, rows.size), np.float64)
    rows.run(_sum_squares, _array(x), sums)
    first, second = sums.sum(0)
    count = max(rows.count, 1)
    mean = first / count
    return torch.from_numpy(mean), torch.from_numpy(np.maximum(second / count - mean * mean, 0.0))


def apply(
    rows: RealRows, x: Tensor, factor: Tensor, mean: Tensor, bias: Tensor, residual: Tensor | None, top: float | None
) -> Tensor:
    """y (R, F), zero at padding; top is None without an activation, and infinite for relu.

    Args:
        factor: a.
    """
    y = torch.empty_like(x)
    added = x if residual is None else residual
    options = residual is not None, top is not None, np.float32(top or 0)
    flat = (_array(v).ravel() for v in (x, y, added))
    rows.run(_apply, rows.size, rows.strip, *flat, *rows.repeated(*map(_array, (factor, mean, bias))), *options)
    return y


def gradients(
    rows: RealRows,
    grad_y: Tensor,
    x: Tensor,
    y: Tensor | None,
    factor: Tensor,
    mean: Tensor,
    bias: Tensor,
    deviation: Tensor,
    top: float | None,
    *,
    through: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The gradients of x, w, b and the residual.

    Args:
        y: the result if there is a residual, otherwise None.
        deviation: σ, float64.
        through: whether the statistics have gradients.
    """
    has_residual = y is not None
    grad_residual = torch.empty_like(x) if has_residual else None
    sums = np.empty((rows.blocks, 2, rows.strip * rows.size), np.float64)
    options = has_residual, top is not None, np.float32(top or 0)
    inner = grad_y if grad_residual is None else grad_residual
    flat = [_array(v).ravel() for v in (grad_y, x, x if y is None else y, inner)]
    features = rows.repeated(*map(_array, (factor, mean, bias)))
    rows.run(_sum_gradients, rows.size, rows.strip, *flat, *features, sums, *options)
    first, second = sums.sum(0).reshape(2, rows.strip, rows.size).sum(1)
    sigma = deviation.numpy()
    count = max(rows.count, 1)
    offset, slope = (first / count, second / (count * sigma * sigma)) if through else (0 * first, 0 * second)
    grad_x = torch.empty_like(x)
    flat = [_array(v).ravel() for v in (inner, x, grad_x)]
    features += rows.repeated(offset.astype(np.float32), slope.astype(np.float32))
    rest = not has_residual and top is not None, options[2]
    rows.run(_differentiate, rows.size, rows.strip, *flat, *features, *rest)
    of_weights = (torch.from_numpy(v.astype(np.float32)) for v in (second / sigma, first))
    grad_weight, grad_bias = of_weights
    return grad_x, grad_weight, grad_bias, grad_residual


def _array(x: Tensor) -> Any:
    """The numbers of a tensor, of bfloat16 their bits."""
    x = x.detach()
    return (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy()


@compiled
def _sort(real: Any, height: int, order: Any, counts: Any) -> None:
    """order ← in every block the real rows, then the others; counts ← the real ones."""
    rows = len(order)
    for block in range(len(counts)):
        low, high = block * height, min((block + 1) * height, rows)
        count = 0
        if len(real) == 0:
            for row in range(low, high):
                order[row] = row
            count = high - low
        else:
            for row in range(low, high):
                if real[row]:
                    order[low + count] = row
                    count += 1
            rest = low + count
            for row in range(low, high):
                if not real[row]:
                    order[rest] = row
                    rest += 1
        counts[block] = count


@compiled
def _sum_squares(order: Any, counts: Any, height: int, x: Any, sums: Any, start: int, stop: int) -> None:
    size = x.shape[1]
    for block in range(start, stop):
        low, count = block * height, counts[block]
        first, second = sums[block, 0], sums[block, 1]
        first[:] = 0.0
        second[:] = 0.0
        whole = count - count % 4
        # four rows at a time, for which the sums are read and written once
        for k in range(low, low + whole, 4):
            x0, x1, x2, x3 = x[order[k]], x[order[k + 1]], x[order[k + 2]], x[order[k + 3]]
            for f in range(size):
                a, b = np.float64(widen(x0[f])), np.float64(widen(x1[f]))
                c, d = np.float64(widen(x2[f])), np.float64(widen(x3[f]))
                first[f] += (a + b) + (c + d)
                second[f] += (a * a + b * b) + (c * c + d * d)
        for k in range(low + whole, low + count):
            x0 = x[order[k]]
            for f in range(size):
                a = np.float64(widen(x0[f]))
                first[f] += a
                second[f] += a * a


@subroutine
def _length(order: Any, k: int, end: int, size: int, strip: int) -> Any:
    """The numbers of the strip from row k of an order on, or of one row if the strip's rows are not adjacent."""
    last = k + strip - 1
    return strip * size if last < end and order[last] - order[k] == strip - 1 else size


@subroutine
def _clear(order: Any, start: int, stop: int, size: int, out: Any) -> None:
    """Writes zeros in rows of padding."""
    for k in range(start, stop):
        row = out[order[k] * size : (order[k] + 1) * size]
        for f in range(size):
            row[f] = narrow(np.float32(0), row[f])


@compiled
def _apply(
    order: Any,
    counts: Any,
    height: int,
    size: int,
    strip: int,
    x: Any,
    y: Any,
    residual: Any,
    factor: Any,
    mean: Any,
    bias: Any,
    adds: bool,
    cuts: bool,
    top: Any,
    start: int,
    stop: int,
) -> None:
    zero = np.float32(0)
    for block in range(start, stop):
        low, high = block * height, min((block + 1) * height, len(order))
        end = low + counts[block]
        k = low
        while k < end:
            length, first = _length(order, k, end, size, strip), order[k] * size
            x_row, y_row = x[first : first + length], y[first : first + length]
            r_row = residual[first : first + length]
            if adds:
                if cuts:
                    for f in range(length):
                        p = (widen(x_row[f]) - mean[f]) * factor[f] + bias[f] + widen(r_row[f])
                        p = zero if p < zero else p
                        y_row[f] = narrow(top if p > top else p, y_row[f])
                else:
                    for f in range(length):
                        p = (widen(x_row[f]) - mean[f]) * factor[f] + bias[f] + widen(r_row[f])
                        y_row[f] = narrow(p, y_row[f])
            elif cuts:
                for f in range(length):
                    p = (widen(x_row[f]) - mean[f]) * factor[f] + bias[f]
                    p = zero if p < zero else p
                    y_row[f] = narrow(top if p > top else p, y_row[f])
            else:
                for f in range(length):
                    y_row[f] = narrow((widen(x_row[f]) - mean[f]) * factor[f] + bias[f], y_row[f])
            k += length // size
        _clear(order, end, high, size, y)


@compiled
def _sum_gradients(
    order: Any,
    counts: Any,
    height: int,
    size: int,
    strip: int,
    grad_y: Any,
    x: Any,
    y: Any,
    inner: Any,
    factor: Any,
    mean: Any,
    bias: Any,
    sums: Any,
    adds: bool,
    cuts: bool,
    top: Any,
    start: int,
    stop: int,
) -> None:
    zero = np.float32(0)
    for block in range(start, stop):
        low, high = block * height, min((block + 1) * height, len(order))
        end = low + counts[block]
        of_g, of_gd = sums[block, 0], sums[block, 1]
        of_g[:] = 0.0
        of_gd[:] = 0.0
        k = low
        while k < end:
            length, first = _length(order, k, end, size, strip), order[k] * size
            x_row, g_row = x[first : first + length], grad_y[first : first + length]
            if adds:
                y_row, r_row = y[first : first + length], inner[first : first + length]
                for f in range(length):
                    p, g = widen(y_row[f]), widen(g_row[f])
                    g = zero if cuts and (p <= zero or p >= top) else g
                    r_row[f] = narrow(g, r_row[f])
                    of_g[f] += g
                    of_gd[f] += np.float64(g * (widen(x_row[f]) - mean[f]))
            else:
                for f in range(length):
                    d, g = widen(x_row[f]) - mean[f], widen(g_row[f])
                    p = d * factor[f] + bias[f]
                    g = zero if cuts and (p <= zero or p > top) else g
                    of_g[f] += g
                    of_gd[f] += np.float64(g * d)
            k += length // size
        if adds:
            _clear(order, end, high, size, inner)


@compiled
def _differentiate(
    order: Any,
    counts: Any,
    height: int,
    size: int,
    strip: int,
    inner: Any,
    x: Any,
    grad_x: Any,
    factor: Any,
    mean: Any,
    bias: Any,
    offset: Any,
    slope: Any,
    cuts: bool,
    top: Any,
    start: int,
    stop: int,
) -> None:
    zero = np.float32(0)
    for block in range(start, stop):
        low, high = block * height, min((block + 1) * height, len(order))
        end = low + counts[block]
        k = low
        while k < end:
            length, first = _length(order, k, end, size, strip), order[k] * size
            x_row, g_row = x[first : first + length], inner[first : first + length]
            out = grad_x[first : first + length]
            for f in range(length):
                d, g = widen(x_row[f]) - mean[f], widen(g_row[f])
                p = d * factor[f] + bias[f]
                g = zero if cuts and (p <= zero or p > top) else g
                out[f] = narrow(factor[f] * (g - offset[f] - d * slope[f]), out[f])
            k += length // size
        _clear(order, end, high, size, grad_x)
