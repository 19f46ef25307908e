"""Cells as compiled loops; arguments as in `regard.ops.cells.reference`.

Each inner loop writes one row: more would have to be told apart at run time, and the compiler gives that up.
With `regard.ops.recurrence.numba` these share gates and derivatives, but no loops of steps: those write in place, and
a shared part (`regard.ops.compiled.part`) that did would be several times slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.compiled.cells import open_gates, through_sigmoid, through_tanh
from regard.ops.compiled.elementary import sigmoid, tanh
from regard.ops.threads import spread

_THEIR_OWN = np.empty(0, np.int64)


def lstm(
    t: int,
    gates: Tensor,
    known: Tensor,
    cells: Tensor,
    tangents: Tensor,
    hidden: Tensor,
    whose: Tensor | None = None,
) -> None:
    """A step."""
    _run(_lstm, cells, t, _owners(whose), gates, known, cells, tangents, hidden)


def lstm_back(
    t: int, gates: Tensor, cells: Tensor, tangents: Tensor, by_hidden: Tensor, by_cells: Tensor, by_gates: Tensor
) -> None:
    """A step backwards."""
    _run(_lstm_back, cells, t, gates, cells, tangents, by_hidden, by_cells, by_gates)


def gru(
    t: int,
    fed: Tensor,
    known: Tensor,
    recurrent: Tensor,
    both: Tensor,
    new: Tensor,
    hidden: Tensor,
    whose: Tensor | None = None,
) -> None:
    """A step."""
    _run(_gru, new, t, _owners(whose), fed, known, recurrent, both, new, hidden)


def gru_back(
    t: int, recurrent: Tensor, both: Tensor, new: Tensor, hidden: Tensor, by_hidden: Tensor, by_gates: Tensor
) -> None:
    """A step backwards."""
    _run(_gru_back, new, t, recurrent, both, new, hidden, by_hidden, by_gates)


def read_out(t: int, sums: Tensor, outputs: Tensor, column: int) -> None:
    """A step."""
    spread(_read_out, (t, sums.numpy(), outputs.numpy(), column), len(sums), 8 * sums.numel())


def read_out_back(t: int, by_later: Tensor, by_outputs: Tensor, outputs: Tensor, column: int, by_sums: Tensor) -> None:
    """A step backwards."""
    given = (t, by_later.numpy(), by_outputs.numpy(), outputs.numpy(), column, by_sums.numpy())
    spread(_read_out_back, given, len(by_later), 2 * by_later.numel())


def tanh_of_sum(first: Tensor, second: Tensor) -> None:
    """In the place of the first."""
    sums, added = first.numpy(), second.numpy()
    spread(_tanh_of_sum, (sums, added), len(sums), 4 * sums.size)


def _owners(whose: Tensor | None) -> Any:
    return _THEIR_OWN if whose is None else whose.numpy()


def _run(kernel: Any, sized: Tensor, t: int, *buffers: Any) -> None:
    given = (t, *(buffer.numpy() if isinstance(buffer, Tensor) else buffer for buffer in buffers))
    rows, size = sized.shape[1:]
    spread(kernel, given, rows, 8 * rows * size)


@compiled
def _lstm(
    t: int, whose: Any, gates: Any, known: Any, cells: Any, tangents: Any, hidden: Any, start: int, stop: int
) -> None:
    size = cells.shape[2]
    for row in range(start, stop):
        owner = whose[row] if len(whose) else row
        of_row, last, c, tangent = gates[row], cells[t, row], cells[t + 1, row], tangents[t, row]
        i, f, g, o = of_row[:size], of_row[size : 2 * size], of_row[2 * size : 3 * size], of_row[3 * size :]
        h = hidden[t + 1, row, hidden.shape[2] - size :]
        open_gates(of_row, known[owner % len(known)], size)
        for d in range(size):
            c[d] = f[d] * last[d] + i[d] * g[d]
        for d in range(size):
            tangent[d] = tanh(c[d])
        for d in range(size):
            h[d] = o[d] * tangent[d]


@compiled
def _lstm_back(
    t: int,
    gates: Any,
    cells: Any,
    tangents: Any,
    by_hidden: Any,
    by_cells: Any,
    by_gates: Any,
    start: int,
    stop: int,
) -> None:
    size = cells.shape[2]
    for row in range(start, stop):
        of_row, by_row, last, tangent = gates[row], by_gates[t, row], cells[t, row], tangents[t, row]
        i, f, g, o = of_row[:size], of_row[size : 2 * size], of_row[2 * size : 3 * size], of_row[3 * size :]
        by_i, by_f, by_g, by_o = by_row[:size], by_row[size : 2 * size], by_row[2 * size : 3 * size], by_row[3 * size :]
        by_h, by_c = by_hidden[row], by_cells[row]
        for d in range(size):
            by_o[d] = through_sigmoid(by_h[d] * tangent[d], o[d])
        for d in range(size):
            by_c[d] += through_tanh(by_h[d] * o[d], tangent[d])
        for d in range(size):
            by_i[d] = through_sigmoid(by_c[d] * g[d], i[d])
        for d in range(size):
            by_g[d] = through_tanh(by_c[d] * i[d], g[d])
        for d in range(size):
            by_f[d] = through_sigmoid(by_c[d] * last[d], f[d])
        for d in range(size):
            by_c[d] *= f[d]


@compiled
def _gru(
    t: int,
    whose: Any,
    fed: Any,
    known: Any,
    recurrent: Any,
    both: Any,
    new: Any,
    hidden: Any,
    start: int,
    stop: int,
) -> None:
    size = new.shape[2]
    for row in range(start, stop):
        owner = whose[row] if len(whose) else row
        x, s, gates, n, given = fed[row], recurrent[owner], both[t, row], new[t, row], known[owner % len(known)]
        x_n, x_gates, known_n, known_gates = x[:size], x[size:], given[:size], given[size:]
        s_n, r, z = s[2 * size :], gates[:size], gates[size:]
        last, h = hidden[t, row, hidden.shape[2] - size :], hidden[t + 1, row, hidden.shape[2] - size :]
        for d in range(2 * size):
            gates[d] = sigmoid(x_gates[d] + known_gates[d] + s[d])
        for d in range(size):
            n[d] = tanh(x_n[d] + known_n[d] + r[d] * s_n[d])
        for d in range(size):
            h[d] = n[d] + z[d] * (last[d] - n[d])


@compiled
def _gru_back(
    t: int, recurrent: Any, both: Any, new: Any, hidden: Any, by_hidden: Any, by_gates: Any, start: int, stop: int
) -> None:
    size = new.shape[2]
    for row in range(start, stop):
        gates, by_row, n, by_h = both[t, row], by_gates[t, row], new[t, row], by_hidden[row]
        r, z, s_n = gates[:size], gates[size:], recurrent[row, 2 * size :]
        by_n, by_r, by_z, by_s = by_row[:size], by_row[size : 2 * size], by_row[2 * size : 3 * size], by_row[3 * size :]
        last = hidden[t, row, hidden.shape[2] - size :]
        for d in range(size):
            by_n[d] = through_tanh(by_h[d] - by_h[d] * z[d], n[d])
        for d in range(size):
            by_r[d] = through_sigmoid(by_n[d] * s_n[d], r[d])
        for d in range(size):
            by_z[d] = through_sigmoid(by_h[d] * (last[d] - n[d]), z[d])
        for d in range(size):
            by_s[d] = by_n[d] * r[d]
        for d in range(size):
            by_h[d] *= z[d]


@compiled
def _tanh_of_sum(first: Any, second: Any, start: int, stop: int) -> None:
    for row in range(start, stop):
        sums, added = first[row], second[row]
        for d in range(len(sums)):
            sums[d] = tanh(sums[d] + added[d])


@compiled
def _read_out(t: int, sums: Any, outputs: Any, column: int, start: int, stop: int) -> None:
    size = sums.shape[1]
    for row in range(start, stop):
        given, output = sums[row], outputs[t + 1, row, column : column + size]
        for d in range(size):
            output[d] = tanh(given[d])


@compiled
def _read_out_back(
    t: int, by_later: Any, by_outputs: Any, outputs: Any, column: int, by_sums: Any, start: int, stop: int
) -> None:
    size = by_later.shape[1]
    for row in range(start, stop):
        later, output, found = by_later[row], outputs[t + 1, row, column : column + size], by_sums[t, row]
        if len(by_outputs):
            told = by_outputs[t, row]
            for d in range(size):
                found[d] = through_tanh(later[d] + told[d], output[d])
        else:
            for d in range(size):
                found[d] = through_tanh(later[d], output[d])
