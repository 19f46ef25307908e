"""Steps of cells as compiled loops; equations, shapes and arguments are those of `regard.ops.cells`.

The step of a row is in `regard.ops.kernels.compiled.cells`. Threads share the rows of a batch (`start` to `stop`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from regard.ops.kernels.compiled import compiled
from regard.ops.kernels.compiled.cells import gru_row, gru_row_backward, lstm_row, lstm_row_backward
from regard.ops.threads import parallel_for


@compiled
def _lstm(
    gates: Any, bias: Any, last_cells: Any, cells: Any, tangents: Any, hidden: Any, start: int, stop: int
) -> None:
    size = cells.shape[1]
    for row in range(start, stop):
        lstm_row(size, gates[row], bias, last_cells[row], cells[row], tangents[row], hidden[row])


@compiled
def _lstm_backward(
    gates: Any,
    last_cells: Any,
    tangents: Any,
    grad_hidden: Any,
    grad_cells: Any,
    grad_gates: Any,
    start: int,
    stop: int,
) -> None:
    size = last_cells.shape[1]
    for row in range(start, stop):
        lstm_row_backward(
            size, gates[row], last_cells[row], tangents[row], grad_hidden[row], grad_cells[row], grad_gates[row]
        )


@compiled
def _gru(gates: Any, bias: Any, recurrent: Any, last: Any, hidden: Any, start: int, stop: int) -> None:
    size = last.shape[1]
    for row in range(start, stop):
        n, rz = gates[row, :size], gates[row, size:]
        gru_row(size, rz, n, bias[size:], bias[:size], recurrent[row], last[row], hidden[row])


@compiled
def _gru_backward(
    gates: Any, recurrent: Any, last: Any, grad_hidden: Any, grad_gates: Any, start: int, stop: int
) -> None:
    size = last.shape[1]
    for row in range(start, stop):
        n, rz, s_n = gates[row, :size], gates[row, size:], recurrent[row, 2 * size :]
        grad_n, grad_rz = grad_gates[row, :size], grad_gates[row, size : 3 * size]
        grad_s = grad_gates[row, 3 * size :]
        gru_row_backward(size, rz, n, s_n, last[row], grad_hidden[row], grad_n, grad_rz, grad_s)


def _run(kernel: Any, gates: Tensor, *buffers: Tensor) -> None:
    arrays = gates.numpy(), *(buffer.numpy() for buffer in buffers)
    parallel_for(kernel, arrays, len(gates), 2 * gates.numel())


lstm, lstm_backward = partial(_run, _lstm), partial(_run, _lstm_backward)
gru, gru_backward = partial(_run, _gru), partial(_run, _gru_backward)
