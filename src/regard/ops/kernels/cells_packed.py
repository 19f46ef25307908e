"""Steps of cells as compiled loops over packed rows; the equations are those of `regard.ops.cells`.

The rows of step t begin at `offset`, the longest sequence first, so that the rows that have not ended are the first.
`hidden` and `cells` (B, D) hold the last state and then the new one; `sorted_indices` (B,) are the rows' indices in the
batch, and `column` is the first column of a direction's features in `outputs` (B, S, ≥ D).

`gates` (N, 3·D or 4·D) holds W_ih x + b_ih before a step, the gates after their nonlinearities after it, and their
gradients after the backward step. `recurrent` is W_hh h + b_hh of the rows of the step. `kept_hidden` and `kept_cells`
(N, D) save the state before the step, unless they have no rows. Gates have torch's order: i, f, g, o of an LSTM and
r, z, n of a GRU.

The step of a row is in `regard.ops.kernels.compiled.cells`, whose outputs must not be its inputs: the last state is the
saved one or, if none is saved, a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.ops.kernels.compiled import compiled, subroutine
from regard.ops.kernels.compiled.cells import gru_row, gru_row_backward, lstm_row, lstm_row_backward
from regard.ops.kernels.compiled.elementary import tanh
from regard.ops.threads import parallel_for


@subroutine
def _copy(size: int, values: Any, copies: Any) -> None:
    for d in range(size):
        copies[d] = values[d]


@subroutine
def _collect(size: int, grad_hidden: Any, grad_output: Any, grad_recurrent: Any, row: int) -> None:
    """Adds to the gradient of h that of the output and, unless the sequence ends, that of the next step's product."""
    for d in range(size):
        grad_hidden[d] += grad_output[d]
    if row < len(grad_recurrent):
        through = grad_recurrent[row]
        for d in range(size):
            grad_hidden[d] += through[d]


@compiled
def _lstm(
    t: int,
    offset: int,
    sorted_indices: Any,
    outputs: Any,
    column: int,
    recurrent: Any,
    gates: Any,
    kept_recurrent: Any,
    kept_hidden: Any,
    kept_cells: Any,
    cells: Any,
    hidden: Any,
    start: int,
    stop: int,
) -> None:
    """An LSTM's step."""
    size = hidden.shape[1]
    keeps = len(kept_hidden) > 0
    scratch, tangent = np.empty_like(hidden[0]), np.empty_like(hidden[0])
    for row in range(start, stop):
        c, h = cells[row], hidden[row]
        last_c = kept_cells[offset + row] if keeps else scratch
        _copy(size, c, last_c)
        if keeps:
            _copy(size, h, kept_hidden[offset + row])
        lstm_row(size, gates[offset + row], recurrent[row], last_c, c, tangent, h)
        _copy(size, h, outputs[sorted_indices[row], t, column : column + size])


@compiled
def _lstm_backward(
    t: int,
    offset: int,
    sorted_indices: Any,
    grad_outputs: Any,
    column: int,
    grad_recurrent: Any,
    gates: Any,
    kept_recurrent: Any,
    kept_hidden: Any,
    kept_cells: Any,
    grad_cells: Any,
    grad_hidden: Any,
    start: int,
    stop: int,
) -> None:
    """An LSTM's step backward; gates are overwritten with their gradients.

    Args:
        grad_recurrent: (≤ B, D), of h through the product of the next step.
        grad_hidden: (B, D), of h in other ways; overwritten with 0.
        grad_cells: (B, D), of c_t; overwritten with that of c_{t-1}.
    """
    size = grad_hidden.shape[1]
    tangent, grad_gates = np.empty_like(grad_hidden[0]), np.empty_like(gates[0])
    for row in range(start, stop):
        gate, last_c, grad_h = gates[offset + row], kept_cells[offset + row], grad_hidden[row]
        i, f, g = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size]
        _collect(size, grad_h, grad_outputs[sorted_indices[row], t, column : column + size], grad_recurrent, row)
        # tanh(c_t), computed again from the gates, which costs less than writing and reading it
        for d in range(size):
            tangent[d] = tanh(f[d] * last_c[d] + i[d] * g[d])
        lstm_row_backward(size, gate, last_c, tangent, grad_h, grad_cells[row], grad_gates)
        _copy(4 * size, grad_gates, gate)
        for d in range(size):
            grad_h[d] = 0


@compiled
def _gru(
    t: int,
    offset: int,
    sorted_indices: Any,
    outputs: Any,
    column: int,
    recurrent: Any,
    gates: Any,
    kept_recurrent: Any,
    kept_hidden: Any,
    kept_cells: Any,
    cells: Any,
    hidden: Any,
    start: int,
    stop: int,
) -> None:
    """A GRU's step; s is `recurrent`. The last third of `kept_recurrent` saves s_n for the backward step."""
    size = hidden.shape[1]
    keeps = len(kept_hidden) > 0
    scratch, zeros = np.empty_like(hidden[0]), np.zeros_like(recurrent[0])
    for row in range(start, stop):
        rz, n, s, h = gates[offset + row, : 2 * size], gates[offset + row, 2 * size :], recurrent[row], hidden[row]
        last_h = kept_hidden[offset + row] if keeps else scratch
        _copy(size, h, last_h)
        if keeps:
            _copy(size, s[2 * size :], kept_recurrent[offset + row, 2 * size :])
        gru_row(size, rz, n, zeros[: 2 * size], zeros[2 * size :], s, last_h, h)
        _copy(size, h, outputs[sorted_indices[row], t, column : column + size])


@compiled
def _gru_backward(
    t: int,
    offset: int,
    sorted_indices: Any,
    grad_outputs: Any,
    column: int,
    grad_recurrent: Any,
    gates: Any,
    kept_recurrent: Any,
    kept_hidden: Any,
    kept_cells: Any,
    grad_cells: Any,
    grad_hidden: Any,
    start: int,
    stop: int,
) -> None:
    """A GRU's step backward: gradients of x in `gates`, of s in `kept_recurrent`, through z in `grad_hidden`."""
    size = grad_hidden.shape[1]
    grad_n = np.empty_like(grad_hidden[0])
    for row in range(start, stop):
        rz, n = gates[offset + row, : 2 * size], gates[offset + row, 2 * size :]
        s_rz, s_n = kept_recurrent[offset + row, : 2 * size], kept_recurrent[offset + row, 2 * size :]
        last_h, grad_h = kept_hidden[offset + row], grad_hidden[row]
        _collect(size, grad_h, grad_outputs[sorted_indices[row], t, column : column + size], grad_recurrent, row)
        # s_n is read before its gradient overwrites it; the columns of s_r and s_z are free
        gru_row_backward(size, rz, n, s_n, last_h, grad_h, grad_n, s_rz, s_n)
        _copy(size, grad_n, n)
        _copy(2 * size, s_rz, rz)


def _by_rows(kernel: Any) -> Callable[..., None]:
    def step(t: int, offset: int, rows: int, *buffers: Any) -> None:
        parallel_for(kernel, (t, offset, *buffers), rows, 8 * rows * buffers[-1].shape[1])

    return step


STEPS = {"lstm": _by_rows(_lstm), "gru": _by_rows(_gru)}
"""(t, offset, rows, sorted_indices, outputs, column, recurrent, gates, kept…, cells, hidden)."""
STEPS_BACKWARD = {"lstm": _by_rows(_lstm_backward), "gru": _by_rows(_gru_backward)}
"""The same, with their gradients."""
