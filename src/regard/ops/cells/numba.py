"""Steps of cells as compiled loops; equations, shapes and arguments are those of `regard.ops.cells.reference`.

A loop over d writes one row only, and each is one line of the equations: with several rows the compiler would have to
check at run time that they do not overlap, and gives vector instructions up. What a later loop reads is still in the
first cache then. Threads share the rows of a batch (`start` to `stop`).

`regard.ops.recurrence.numba` has the same gates and derivatives, but not these loops: those write in place, and a
shared part (`regard.ops.compiled.part`) that did would be several times slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.compiled.cells import open_gates, through_sigmoid, through_tanh
from regard.ops.compiled.elementary import sigmoid, tanh
from regard.ops.threads import spread

_ITSELF = np.empty(0, np.int64)


def lstm(
    t: int,
    gates: Tensor,
    shared: Tensor,
    cells: Tensor,
    tangents: Tensor,
    hidden: Tensor,
    parent: Tensor | None = None,
) -> None:
    """A step."""
    _run(_lstm, cells, t, _parents(parent), gates, shared, cells, tangents, hidden)


def lstm_backward(
    t: int, gates: Tensor, cells: Tensor, tangents: Tensor, grad_hidden: Tensor, grad_cells: Tensor, grad_gates: Tensor
) -> None:
    """A step backward."""
    _run(_lstm_backward, cells, t, gates, cells, tangents, grad_hidden, grad_cells, grad_gates)


def gru(
    t: int,
    inputs: Tensor,
    shared: Tensor,
    recurrent: Tensor,
    gates: Tensor,
    candidate: Tensor,
    hidden: Tensor,
    parent: Tensor | None = None,
) -> None:
    """A step."""
    _run(_gru, candidate, t, _parents(parent), inputs, shared, recurrent, gates, candidate, hidden)


def gru_backward(
    t: int, recurrent: Tensor, gates: Tensor, candidate: Tensor, hidden: Tensor, grad_hidden: Tensor, grad_gates: Tensor
) -> None:
    """A step backward."""
    _run(_gru_backward, candidate, t, recurrent, gates, candidate, hidden, grad_hidden, grad_gates)


def read_out(t: int, sums: Tensor, outputs: Tensor, column: int) -> None:
    """A step."""
    spread(_read_out, (t, sums.numpy(), outputs.numpy(), column), len(sums), 8 * sums.numel())


def read_out_backward(
    t: int, grad_later: Tensor, grad_outputs: Tensor, outputs: Tensor, column: int, grad_sums: Tensor
) -> None:
    """A step backward."""
    buffers = (t, grad_later.numpy(), grad_outputs.numpy(), outputs.numpy(), column, grad_sums.numpy())
    spread(_read_out_backward, buffers, len(grad_later), 2 * grad_later.numel())


def tanh_of_sum(first: Tensor, second: Tensor) -> None:
    """In the place of the first."""
    sums, added = first.numpy(), second.numpy()
    spread(_tanh_of_sum, (sums, added), len(sums), 4 * sums.size)


def _parents(parent: Tensor | None) -> Any:
    return _ITSELF if parent is None else parent.numpy()


def _run(kernel: Any, sized: Tensor, t: int, *buffers: Any) -> None:
    arrays = (t, *(buffer.numpy() if isinstance(buffer, Tensor) else buffer for buffer in buffers))
    rows, size = sized.shape[1:]
    spread(kernel, arrays, rows, 8 * rows * size)


@compiled
def _lstm(
    t: int, parent: Any, gates: Any, shared: Any, cells: Any, tangents: Any, hidden: Any, start: int, stop: int
) -> None:
    size = cells.shape[2]
    for row in range(start, stop):
        origin = parent[row] if len(parent) else row
        # views of the row: gates (4·D) and its quarters, c_{t-1}, c_t, tanh(c_t) and h_t (D)
        gate, last, c, tangent = gates[row], cells[t, row], cells[t + 1, row], tangents[t, row]
        i, f, g, o = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
        h = hidden[t + 1, row, hidden.shape[2] - size :]
        open_gates(gate, shared[origin % len(shared)], size)  # σ(i), σ(f), tanh(g), σ(o), the shared row added first
        for d in range(size):
            c[d] = f[d] * last[d] + i[d] * g[d]
        for d in range(size):
            tangent[d] = tanh(c[d])
        for d in range(size):
            h[d] = o[d] * tangent[d]


@compiled
def _lstm_backward(
    t: int,
    gates: Any,
    cells: Any,
    tangents: Any,
    grad_hidden: Any,
    grad_cells: Any,
    grad_gates: Any,
    start: int,
    stop: int,
) -> None:
    size = cells.shape[2]
    for row in range(start, stop):
        # views of the row, as in `_lstm`: the gates are behind their nonlinearities now
        gate, grad_gate, last, tangent = gates[row], grad_gates[t, row], cells[t, row], tangents[t, row]
        i, f, g, o = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
        grad_i, grad_f, grad_g, grad_o = (
            grad_gate[:size],
            grad_gate[size : 2 * size],
            grad_gate[2 * size : 3 * size],
            grad_gate[3 * size :],
        )
        grad_h, grad_c = grad_hidden[row], grad_cells[row]
        # h = o tanh(c): o first, then what c gets through h is added to what it gets from the next step
        for d in range(size):
            grad_o[d] = through_sigmoid(grad_h[d] * tangent[d], o[d])
        for d in range(size):
            grad_c[d] += through_tanh(grad_h[d] * o[d], tangent[d])
        # c = f c_{t-1} + i g, from the whole gradient of c; that of c_{t-1} takes its place at the end
        for d in range(size):
            grad_i[d] = through_sigmoid(grad_c[d] * g[d], i[d])
        for d in range(size):
            grad_g[d] = through_tanh(grad_c[d] * i[d], g[d])
        for d in range(size):
            grad_f[d] = through_sigmoid(grad_c[d] * last[d], f[d])
        for d in range(size):
            grad_c[d] *= f[d]


@compiled
def _gru(
    t: int,
    parent: Any,
    inputs: Any,
    shared: Any,
    recurrent: Any,
    gates: Any,
    candidate: Any,
    hidden: Any,
    start: int,
    stop: int,
) -> None:
    size = candidate.shape[2]
    for row in range(start, stop):
        origin = parent[row] if len(parent) else row
        # views of the row: x and the shared row (n, r, z), s (r, z, n), r and z, n, h_{t-1} and h_t
        x, s, b = inputs[row], recurrent[origin], shared[origin % len(shared)]
        x_n, x_rz, b_n, b_rz, s_n = x[:size], x[size:], b[:size], b[size:], s[2 * size :]
        rz, n = gates[t, row], candidate[t, row]
        r, z = rz[:size], rz[size:]
        last, h = hidden[t, row, hidden.shape[2] - size :], hidden[t + 1, row, hidden.shape[2] - size :]
        for d in range(2 * size):
            rz[d] = sigmoid(x_rz[d] + b_rz[d] + s[d])
        for d in range(size):
            n[d] = tanh(x_n[d] + b_n[d] + r[d] * s_n[d])
        for d in range(size):
            h[d] = n[d] + z[d] * (last[d] - n[d])


@compiled
def _gru_backward(
    t: int,
    recurrent: Any,
    gates: Any,
    candidate: Any,
    hidden: Any,
    grad_hidden: Any,
    grad_gates: Any,
    start: int,
    stop: int,
) -> None:
    size = candidate.shape[2]
    for row in range(start, stop):
        rz, grad_gate, n, grad_h = gates[t, row], grad_gates[t, row], candidate[t, row], grad_hidden[row]
        r, z, s_n = rz[:size], rz[size:], recurrent[row, 2 * size :]
        grad_n, grad_r, grad_z, grad_s = (
            grad_gate[:size],
            grad_gate[size : 2 * size],
            grad_gate[2 * size : 3 * size],
            grad_gate[3 * size :],
        )
        last = hidden[t, row, hidden.shape[2] - size :]
        # h = (1 - z) n + z h_{t-1}: n first, as r and s_n are reached through it
        for d in range(size):
            grad_n[d] = through_tanh(grad_h[d] - grad_h[d] * z[d], n[d])
        for d in range(size):
            grad_r[d] = through_sigmoid(grad_n[d] * s_n[d], r[d])
        for d in range(size):
            grad_z[d] = through_sigmoid(grad_h[d] * (last[d] - n[d]), z[d])
        for d in range(size):
            grad_s[d] = grad_n[d] * r[d]
        # what h_{t-1} gets through z; the caller adds what it gets through s
        for d in range(size):
            grad_h[d] *= z[d]


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
        z, output = sums[row], outputs[t + 1, row, column : column + size]
        for d in range(size):
            output[d] = tanh(z[d])


@compiled
def _read_out_backward(
    t: int, grad_later: Any, grad_outputs: Any, outputs: Any, column: int, grad_sums: Any, start: int, stop: int
) -> None:
    size = grad_later.shape[1]
    for row in range(start, stop):
        later, output, grad_z = grad_later[row], outputs[t + 1, row, column : column + size], grad_sums[t, row]
        if len(grad_outputs):
            now = grad_outputs[t, row]
            for d in range(size):
                grad_z[d] = through_tanh(later[d] + now[d], output[d])
        else:
            for d in range(size):
                grad_z[d] = through_tanh(later[d], output[d])
