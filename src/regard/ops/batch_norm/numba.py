"""Batch normalisation of real rows as compiled loops, of float32 or bfloat16; sums are float64, the rest float32.

    forward:   d = x - mean,  a = w / σ with σ = √(variance + ε),  p = a d + b + r,  y = min(max(p, 0), top)
    backward:  g = grad_y where 0 < p < top, else 0;  grad_r = g,  grad_b = Σ g,  grad_w = Σ g d / σ
               grad_x = a (g - Σ g / N - d (Σ g d) / (N σ²)),  or a g if the statistics are given

The forward pass reads x once for the sums and once for y. The backward pass reads x and grad_y once for each of the two
sums, and once for grad_x; without a residual p is computed again, with one y tells where p was between 0 and top, and
grad_r, which is written with the sums, is what grad_x is computed from. Rows are taken in blocks, whose sums are added
up in order: no result depends on the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.compiled.halves import narrow, widen
from regard.ops.threads import parallel_for

BLOCK = 1 << 14
"""Numbers of a block: x, y and a gradient of it stay in a core's cache."""


class Rows:
    """The real rows of an array (R, F): in each block of rows, first those that are real.

    Args:
        mask: (R,), True at real rows; all if None.
        shape: (R, F).
    """

    def __init__(self, mask: Tensor | None, shape: torch.Size) -> None:
        self.rows, self.size = shape
        self.height = max(8, BLOCK // self.size)
        self.blocks = -(-self.rows // self.height)
        self.order = np.empty(self.rows, np.int64)
        self.counts = np.empty(self.blocks, np.int64)
        real = np.ones(0, np.bool_) if mask is None else mask.contiguous().numpy()
        _sort(real, self.height, self.order, self.counts)
        self.count = int(self.counts.sum())

    def run(self, kernel: Any, *arguments: Any) -> None:
        """Calls a kernel for all blocks."""
        work = 2 * self.rows * self.size
        parallel_for(kernel, (self.order, self.counts, self.height, *arguments), self.blocks, work)

    def sums(self) -> Any:
        """An array for two sums over rows in every block."""
        return np.empty((self.blocks, 2, self.size), np.float64)


def statistics(rows: Rows, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (F,) of the real rows of x (R, F), in float64."""
    sums = rows.sums()
    rows.run(_sum_squares, _array(x), sums)
    first, second = sums.sum(0)
    count = max(rows.count, 1)
    mean = first / count
    return torch.from_numpy(mean), torch.from_numpy(np.maximum(second / count - mean * mean, 0.0))


def apply(
    rows: Rows, x: Tensor, factor: Tensor, mean: Tensor, bias: Tensor, residual: Tensor | None, top: float | None
) -> Tensor:
    """y (R, F), zero at padding; top is None without an activation, and infinite of relu.

    Args:
        factor: a.
    """
    y = torch.empty_like(x)
    added = x if residual is None else residual
    options = residual is not None, top is not None, np.float32(top or 0)
    rows.run(_apply, *map(_array, (x, y, added, factor, mean, bias)), *options)
    return y


def gradients(
    rows: Rows,
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
        y: the result if there was a residual, otherwise None.
        deviation: σ, float64.
        through: whether gradients go through the statistics.
    """
    has_residual = y is not None
    grad_residual = torch.empty_like(x) if has_residual else None
    sums = rows.sums()
    options = has_residual, top is not None, np.float32(top or 0)
    inner = grad_y if grad_residual is None else grad_residual
    known = [_array(v) for v in (grad_y, x, x if y is None else y, inner, factor, mean, bias)]
    rows.run(_sum_gradients, *known, sums, *options)
    first, second = sums.sum(0)
    sigma = deviation.numpy()
    count = max(rows.count, 1)
    offset, slope = (first / count, second / (count * sigma * sigma)) if through else (0 * first, 0 * second)
    grad_x = torch.empty_like(x)
    known = [_array(v) for v in (inner, x, grad_x, factor, mean, bias)]
    rest = offset.astype(np.float32), slope.astype(np.float32), not has_residual and top is not None, options[2]
    rows.run(_differentiate, *known, *rest)
    of_weights = (torch.from_numpy(v.astype(np.float32)) for v in (second / sigma, first))
    grad_weight, grad_bias = of_weights
    return grad_x, grad_weight, grad_bias, grad_residual


def _array(x: Tensor) -> Any:
    """The numbers of a tensor; of bfloat16 their bits."""
    x = x.detach()
    return (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy()


@compiled
def _sort(real: Any, height: int, order: Any, counts: Any) -> None:
    """In every block the numbers of its real rows, then those of the others."""
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
        # four rows at a time: the sums, which are twice as wide, are read and written once for them
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


@compiled
def _apply(
    order: Any,
    counts: Any,
    height: int,
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
    rows, size = x.shape
    zero = np.float32(0)
    for block in range(start, stop):
        low, high = block * height, min((block + 1) * height, rows)
        for k in range(low, low + counts[block]):
            x_row, y_row, r_row = x[order[k]], y[order[k]], residual[order[k]]
            if adds:
                if cuts:
                    for f in range(size):
                        p = (widen(x_row[f]) - mean[f]) * factor[f] + bias[f] + widen(r_row[f])
                        p = zero if p < zero else p
                        y_row[f] = narrow(top if p > top else p, y_row[f])
                else:
                    for f in range(size):
                        p = (widen(x_row[f]) - mean[f]) * factor[f] + bias[f] + widen(r_row[f])
                        y_row[f] = narrow(p, y_row[f])
            elif cuts:
                for f in range(size):
                    p = (widen(x_row[f]) - mean[f]) * factor[f] + bias[f]
                    p = zero if p < zero else p
                    y_row[f] = narrow(top if p > top else p, y_row[f])
            else:
                for f in range(size):
                    y_row[f] = narrow((widen(x_row[f]) - mean[f]) * factor[f] + bias[f], y_row[f])
        for k in range(low + counts[block], high):
            y_row = y[order[k]]
            for f in range(size):
                y_row[f] = narrow(zero, y_row[f])


@compiled
def _sum_gradients(
    order: Any,
    counts: Any,
    height: int,
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
    rows, size = x.shape
    zero = np.float32(0)
    for block in range(start, stop):
        low, high = block * height, min((block + 1) * height, rows)
        first, second = sums[block, 0], sums[block, 1]
        first[:] = 0.0
        second[:] = 0.0
        for k in range(low, low + counts[block]):
            x_row, g_row = x[order[k]], grad_y[order[k]]
            if adds:
                y_row, r_row = y[order[k]], inner[order[k]]
                for f in range(size):
                    p, g = widen(y_row[f]), widen(g_row[f])
                    g = zero if cuts and (p <= zero or p >= top) else g
                    r_row[f] = narrow(g, r_row[f])
                    first[f] += g
                    second[f] += np.float64(g) * np.float64(widen(x_row[f]) - mean[f])
            else:
                for f in range(size):
                    d, g = widen(x_row[f]) - mean[f], widen(g_row[f])
                    p = d * factor[f] + bias[f]
                    g = zero if cuts and (p <= zero or p >= top) else g
                    first[f] += g
                    second[f] += np.float64(g) * np.float64(d)
        if adds:
            for k in range(low + counts[block], high):
                r_row = inner[order[k]]
                for f in range(size):
                    r_row[f] = narrow(zero, r_row[f])


@compiled
def _differentiate(
    order: Any,
    counts: Any,
    height: int,
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
    rows, size = x.shape
    zero = np.float32(0)
    for block in range(start, stop):
        low, high = block * height, min((block + 1) * height, rows)
        for k in range(low, low + counts[block]):
            x_row, g_row, out = x[order[k]], inner[order[k]], grad_x[order[k]]
            for f in range(size):
                d, g = widen(x_row[f]) - mean[f], widen(g_row[f])
                p = d * factor[f] + bias[f]
                g = zero if cuts and (p <= zero or p >= top) else g
                out[f] = narrow(factor[f] * (g - offset[f] - d * slope[f]), out[f])
        for k in range(low + counts[block], high):
            out = grad_x[order[k]]
            for f in range(size):
                out[f] = narrow(zero, out[f])
