"""Parts of a step for a single row as compiled loops; the equations are those of `reference`.

With one row a step takes as long as its weights take from memory, so what is not needed is not read: a row m_s or a
column of W_x whose factor is zero (beside 1, to the last digit: `NEGLIGIBLE`) is passed over. Sums of rows of matrices
are made four rows at a time, so that each row is read from its begin to its end; products with W read its rows where
they stand (`tiles`). Threads share the outputs, of an LSTM its units (`start` to `stop`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.attend.forward.numba import keep_row, move_row
from regard.ops.compiled import called, compiled
from regard.ops.compiled.cells import lstm_row
from regard.ops.compiled.elementary import LARGE, power
from regard.ops.compiled.tiles import gathered_sum, products
from regard.ops.single_row.reference import Affine
from regard.ops.threads import parallel_for

NEGLIGIBLE: dict[Any, Any] = {np.dtype(kind): kind(np.finfo(kind).eps / 512) for kind in (np.float32, np.float64)}
"""A factor whose products are lost beside numbers of the other factors' size, even five hundred of them together."""


class Map:
    """y for rows of one sentence."""

    def __init__(self, maps: Affine) -> None:
        bias, columns, mixed, weight = (
            x.detach().contiguous() for x in (maps.bias, maps.columns, maps.mixed, maps.weight)
        )
        self.like = bias
        kind = bias.numpy().dtype
        self.arrays = (bias.numpy(), columns.numpy(), mixed.numpy(), weight.numpy(), NEGLIGIBLE[kind])
        self.work = columns.numel() + mixed.numel() + weight.numel()
        self.nothing = np.empty((1, 0), kind)

    def inputs(self, *parts: Tensor | None) -> tuple[Any, ...]:
        """x, α, left and right as kernels take them."""
        return tuple(self.nothing if part is None else part.contiguous().numpy() for part in parts)

    def __call__(
        self, x: Tensor | None, alpha: Tensor | None, left: Tensor | None, right: Tensor | None, rows: int
    ) -> Tensor:
        """y (R, N)."""
        out = self.like.new_empty(rows, self.like.shape[0])
        arguments = *self.arrays, *self.inputs(x, alpha, left, right), out.numpy()
        parallel_for(_affine, arguments, out.shape[1], rows * self.work)
        return out

    def rectified(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """mask ⊙ max(y, 0), y of x alone."""
        out = self.like.new_empty(x.shape[0], self.like.shape[0])
        arguments = *self.arrays, *self.inputs(x, mask), out.numpy()
        parallel_for(_rectify, arguments, out.shape[1], x.shape[0] * self.work)
        return out


class Lstm(Map):
    """An LSTM's step.

    Args:
        maps: to the gates (N = 4·D).
        recurrent: W_hh (4·D, D).
    """

    def __init__(self, maps: Affine, recurrent: Tensor) -> None:
        super().__init__(maps)
        self.recurrent = recurrent.detach().contiguous().numpy()
        self.work += self.recurrent.size

    def step(
        self,
        x: Tensor | None,
        alpha: Tensor | None,
        left: Tensor | None,
        right: Tensor | None,
        h: Tensor,
        c: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The new h and c (R, D)."""
        new = torch.empty((2, *c.shape), dtype=c.dtype)
        inputs = self.inputs(x, alpha, left, right, h, c)
        arguments = *self.arrays, self.recurrent, *inputs, new.numpy()
        parallel_for(_lstm, arguments, c.shape[1], c.shape[0] * self.work)
        return new[0], new[1]


class Located:
    """Location-sensitive attention of rows of one sentence.

    Args:
        project: from the cells to queries, N = H·D.
        keys: (S, H, D).
        matrix: M (H, C·W, D).
        v: (H, D).
        mask: (S,) or None.
    """

    def __init__(
        self, project: Map, keys: Tensor, matrix: Tensor, v: Tensor, mask: Tensor | None, sharpening: float
    ) -> None:
        self.project = project
        self.mask = np.empty(0, np.bool_) if mask is None else mask.contiguous().numpy()
        parts = (keys, matrix, v)
        self.keys, self.matrix, self.v = (x.detach().clone(memory_format=torch.contiguous_format) for x in parts)
        kind = self.v.numpy().dtype
        self.arrays = (self.keys.numpy(), self.matrix.numpy(), self.v.numpy(), self.mask)
        self.numbers = NEGLIGIBLE[kind], LARGE[kind], np.finfo(kind).tiny, kind.type(sharpening)
        self.nothing = v.new_empty(0, 0, 0), v.new_empty(0, 0)

    def __call__(
        self,
        cells: Tensor,
        past: Tensor,
        total: Tensor,
        num_recent: int,
        has_sum: bool,
        progress: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, ...]:
        """α (R, H, S), the channels of the next step (R, H, C, S), the sum of all alignments (R, H, S), and the next a.

        Args:
            cells: (R, D).
            past: (R, H, C, S), `num_recent` alignments and then, if `has_sum`, their sum.
            total: (R, H, S).
            progress: of forward attention, a (R, H, S) and u (R, H).
        """
        query = self.project(None, None, cells, None, cells.shape[0])
        alpha, after, sums = torch.empty_like(total), torch.empty_like(past), torch.empty_like(total)
        last, move = self.nothing if progress is None else progress
        kept = torch.empty_like(last)
        given = query.numpy(), past.numpy(), total.numpy(), num_recent, has_sum, last.numpy(), move.numpy()
        results = alpha.numpy(), after.numpy(), sums.numpy(), kept.numpy()
        _located(*self.arrays, *self.numbers, *given, *results)
        return alpha, after, sums, kept


@called
def _add_rows(factors: Any, matrix: Any, negligible: Any, begin: int, end: int, out: Any) -> None:
    """out_n += Σ_k factors_k matrix_kn for begin ≤ n < end, without the k whose factors are negligible."""
    slots, count = np.empty(len(factors) + 4, np.int64), 0
    for k in range(len(factors)):
        if not abs(factors[k]) <= negligible:  # NaN is not passed over
            slots[count] = k
            count += 1
    for j in range(0, count - count % 4, 4):
        a, b, c, d = slots[j], slots[j + 1], slots[j + 2], slots[j + 3]
        w, x, y, z = factors[a], factors[b], factors[c], factors[d]
        row_a, row_b, row_c, row_d = matrix[a], matrix[b], matrix[c], matrix[d]
        for n in range(begin, end):
            out[n] += (w * row_a[n] + x * row_b[n]) + (y * row_c[n] + z * row_d[n])
    for j in range(count - count % 4, count):
        w, row_a = factors[slots[j]], matrix[slots[j]]
        for n in range(begin, end):
            out[n] += w * row_a[n]


@called
def _sum(
    row: int,
    bias: Any,
    columns: Any,
    mixed: Any,
    weight: Any,
    negligible: Any,
    x: Any,
    alpha: Any,
    read: Any,
    scratch: Any,
    begin: int,
    end: int,
    out: Any,
) -> None:
    """y_n of a row for begin ≤ n < end, `read` being [left; right]."""
    for n in range(begin, end):
        out[n] = bias[n]
    if len(columns):
        _add_rows(x[row], columns, negligible, begin, end, out)
    if len(mixed):
        _add_rows(alpha[row], mixed, negligible, begin, end, out)
    if len(read):
        products(read.ctypes.data, 0, 1, weight.ctypes.data, len(read), begin, end, scratch.ctypes.data, 0, weight)
        for n in range(begin, end):
            out[n] += scratch[n]


@called
def _joined(left: Any, right: Any, row: int) -> Any:
    """[left; right] of a row; an array without columns stands for nothing."""
    size = left.shape[1]
    read = np.empty(size + right.shape[1], left.dtype)
    if size:
        read[:size] = left[row]
    if right.shape[1]:
        read[size:] = right[row]
    return read


@compiled
def _affine(
    bias: Any,
    columns: Any,
    mixed: Any,
    weight: Any,
    negligible: Any,
    x: Any,
    alpha: Any,
    left: Any,
    right: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    scratch = np.empty(out.shape[1], out.dtype)
    for row in range(len(out)):
        read = _joined(left, right, row)
        _sum(row, bias, columns, mixed, weight, negligible, x, alpha, read, scratch, start, stop, out[row])


@compiled
def _rectify(
    bias: Any,
    columns: Any,
    mixed: Any,
    weight: Any,
    negligible: Any,
    x: Any,
    mask: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    nothing = np.empty(0, out.dtype)
    for row in range(len(out)):
        y = out[row]
        _sum(row, bias, columns, mixed, weight, negligible, x, x, nothing, nothing, start, stop, y)
        zero = negligible - negligible
        for n in range(start, stop):
            y[n] = zero if y[n] < zero else y[n]  # NaN stays
        if mask.shape[1]:
            for n in range(start, stop):
                y[n] *= mask[row, n]


@compiled
def _lstm(
    bias: Any,
    columns: Any,
    mixed: Any,
    weight: Any,
    negligible: Any,
    recurrent: Any,
    x: Any,
    alpha: Any,
    left: Any,
    right: Any,
    h: Any,
    c: Any,
    new: Any,
    start: int,
    stop: int,
) -> None:
    """Gates i, f, g and o of the units start … stop, then their step; new (2, R, D) takes h and c."""
    size, count = c.shape[1], stop - start
    sums, through = np.empty(4 * size, c.dtype), np.empty(4 * size, c.dtype)
    gates, added, tangent = np.empty(4 * count, c.dtype), np.empty(4 * count, c.dtype), np.empty(count, c.dtype)
    parts = 1 if count == size else 4  # all units: all gates at once, in one pass over the weights
    for row in range(len(c)):
        read, last = _joined(left, right, row), h[row]
        for gate in range(parts):
            begin = 0 if parts == 1 else gate * size + start
            end = 4 * size if parts == 1 else gate * size + stop
            _sum(row, bias, columns, mixed, weight, negligible, x, alpha, read, through, begin, end, sums)
            products(last.ctypes.data, 0, 1, recurrent.ctypes.data, size, begin, end, through.ctypes.data, 0, recurrent)
        for gate in range(4):
            here, there = gate * count, gate * size + start
            gates[here : here + count] = sums[there : there + count]
            added[here : here + count] = through[there : there + count]
        lstm_row(count, gates, added, c[row, start:stop], new[1, row, start:stop], tangent, new[0, row, start:stop])


@compiled
def _located(
    keys: Any,
    matrix: Any,
    v: Any,
    mask: Any,
    negligible: Any,
    large: Any,
    tiny: Any,
    sharpening: Any,
    query: Any,
    past: Any,
    total: Any,
    num_recent: int,
    has_sum: bool,
    last: Any,
    move: Any,
    alpha: Any,
    after: Any,
    sums: Any,
    kept: Any,
) -> None:
    """α, then what the next step reads: channels move up by one, and the last is the sum.

    query (R, H·D); the other shapes are in `reference.located`. A position's u is a sum of rows of M in registers,
    without the taps that are negligible: an alignment is, at most positions.
    """
    (rows, heads, channels, positions), size = past.shape, v.shape[1]
    width = matrix.shape[1] // channels
    one = large / large
    half = one / (one + one)
    zero = one - one
    u, factors = np.empty(size, v.dtype), np.empty(matrix.shape[1], v.dtype)
    slots, reach = np.empty(matrix.shape[1], np.int32), np.empty(positions, v.dtype)
    for r in range(rows):
        for h in range(heads):
            q, factor, weights = query[r, h * size : (h + 1) * size], v[h], alpha[r, h]
            for s in range(positions):
                if len(mask) and not mask[s]:
                    continue
                count = 0
                for c in range(channels):
                    channel, first = past[r, h, c], s - width // 2
                    for w in range(max(0, -first), min(width, positions - first)):
                        if not abs(channel[first + w]) <= negligible:
                            slots[count], factors[count] = c * width + w, channel[first + w]
                            count += 1
                gathered_sum(
                    factors.ctypes.data,
                    slots,
                    0,
                    count,
                    matrix[h].ctypes.data,
                    size * matrix.itemsize,
                    size,
                    u.ctypes.data,
                    matrix,
                )
                key, share = keys[s, h], zero
                # Σ v tanh = Σ v (1 - 2 r), r = 1 / (1 + e^{2x}): Σ v (½ - r), doubled once
                for d in range(size):
                    p = power(q[d] + key[d] + u[d])
                    share += factor[d] * (half - one / (one + (large if p > large else p)))
                weights[s] = sharpening * (share + share)
            if len(last):
                move_row(mask, tiny, move[r, h], last[r, h], reach, weights)
            # softmax over the support
            top, whole = -np.inf, zero
            for s in range(positions):
                if len(mask) == 0 or mask[s]:
                    top = top if weights[s] <= top else weights[s]
            for s in range(positions):
                if len(mask) and not mask[s]:
                    weights[s] = zero
                else:
                    weights[s] = math.exp(weights[s] - top)
                    whole += weights[s]
            for s in range(positions):
                weights[s] = weights[s] / whole if whole != zero else zero
            for s in range(positions):
                sums[r, h, s] = total[r, h, s] + weights[s]
            if len(last):
                keep_row(weights, last[r, h], kept[r, h])
            for c in range(num_recent - 1):
                after[r, h, c] = past[r, h, c + 1]
            if num_recent:
                after[r, h, num_recent - 1] = weights
            if has_sum:
                after[r, h, channels - 1] = sums[r, h]
