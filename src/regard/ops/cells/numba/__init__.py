"""Steps of cells as compiled loops; equations, shapes and arguments are those of `regard.ops.cells.reference`.

What a row computes is in `regard.ops.compiled.cells`; here are the views of a row in the buffers. Threads share the
rows of a batch (`start` to `stop`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.compiled.cells import gru_row, gru_row_backward, lstm_row, lstm_row_backward, through_tanh
from regard.ops.compiled.elementary import tanh
from regard.ops.threads import parallel_for

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
    _run(_lstm, gates, cells.shape[2], t, _parents(parent), gates, shared, cells, tangents, hidden)


def lstm_backward(
    t: int, gates: Tensor, cells: Tensor, tangents: Tensor, grad_hidden: Tensor, grad_cells: Tensor, grad_gates: Tensor
) -> None:
    """A step backward."""
    _run(_lstm_backward, gates, cells.shape[2], t, gates, cells, tangents, grad_hidden, grad_cells, grad_gates)


def gru(t: int, gates: Tensor, shared: Tensor, recurrent: Tensor, hidden: Tensor, parent: Tensor | None = None) -> None:
    """A step."""
    _run(_gru, gates, gates.shape[1] // 3, t, _parents(parent), gates, shared, recurrent, hidden)


def gru_backward(
    t: int, recurrent: Tensor, gates: Tensor, hidden: Tensor, grad_hidden: Tensor, grad_gates: Tensor
) -> None:
    """A step backward."""
    _run(_gru_backward, gates, gates.shape[1] // 3, t, recurrent, gates, hidden, grad_hidden, grad_gates)


def read_out(t: int, sums: Tensor, outputs: Tensor, column: int) -> None:
    """A step."""
    parallel_for(_read_out, (t, sums.numpy(), outputs.numpy(), column), len(sums), 8 * sums.numel())


def read_out_backward(
    t: int, grad_later: Tensor, grad_outputs: Tensor, outputs: Tensor, column: int, grad_sums: Tensor
) -> None:
    """A step backward."""
    buffers = (t, grad_later.numpy(), grad_outputs.numpy(), outputs.numpy(), column, grad_sums.numpy())
    parallel_for(_read_out_backward, buffers, len(grad_later), 2 * grad_later.numel())


def tanh_of_sum(first: Tensor, second: Tensor) -> None:
    """In the place of the first."""
    sums, added = first.numpy(), second.numpy()
    parallel_for(_tanh_of_sum, (sums, added), len(sums), 4 * sums.size)


def _parents(parent: Tensor | None) -> Any:
    return _ITSELF if parent is None else parent.numpy()


def _run(kernel: Any, gates: Tensor, size: int, t: int, *buffers: Any) -> None:
    arrays = (t, *(buffer.numpy() if isinstance(buffer, Tensor) else buffer for buffer in buffers))
    parallel_for(kernel, arrays, len(gates), 8 * len(gates) * size)


@compiled
def _lstm(
    t: int, parent: Any, gates: Any, shared: Any, cells: Any, tangents: Any, hidden: Any, start: int, stop: int
) -> None:
    size = cells.shape[2]
    for row in range(start, stop):
        origin = parent[row] if len(parent) else row
        h = hidden[t + 1, row, hidden.shape[2] - size :]
        added = shared[origin % len(shared)]
        lstm_row(size, gates[row], added, cells[t, row], cells[t + 1, row], tangents[t, row], h)


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
        lstm_row_backward(
            size, gates[row], cells[t, row], tangents[t, row], grad_hidden[row], grad_cells[row], grad_gates[t, row]
        )


@compiled
def _gru(t: int, parent: Any, gates: Any, shared: Any, recurrent: Any, hidden: Any, start: int, stop: int) -> None:
    size = gates.shape[1] // 3
    column = hidden.shape[2] - size
    for row in range(start, stop):
        origin = parent[row] if len(parent) else row
        n, rz = gates[row, :size], gates[row, size:]
        added = shared[origin % len(shared)]
        last_h, h = hidden[t, row, column:], hidden[t + 1, row, column:]
        gru_row(size, rz, n, added[size:], added[:size], recurrent[origin], last_h, h)


@compiled
def _gru_backward(
    t: int, recurrent: Any, gates: Any, hidden: Any, grad_hidden: Any, grad_gates: Any, start: int, stop: int
) -> None:
    size = grad_hidden.shape[1]
    for row in range(start, stop):
        n, rz, s_n = gates[row, :size], gates[row, size:], recurrent[row, 2 * size :]
        grad_n, grad_rz = grad_gates[t, row, :size], grad_gates[t, row, size : 3 * size]
        grad_s = grad_gates[t, row, 3 * size :]
        last_h = hidden[t, row, hidden.shape[2] - size :]
        gru_row_backward(size, rz, n, s_n, last_h, grad_hidden[row], grad_n, grad_rz, grad_s)


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
