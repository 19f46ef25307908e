"""Cells as compiled loops over packed rows.

Rows of all steps stand one below the other, those of step t from `offset` on, the longest sequence first; so the rows
that are still alive are the first ones. `hidden` and `cells` (B, D) hold the last state and then the new one; `places`
(B,) are the rows' places in the batch, and `column` is where a direction's features begin in `outputs` (B, S, ≥ D).

What stood in `gates` before its nonlinearity stands there behind it after the step, and its gradient after the step
back. `kept_hidden` and `kept_cells` (N, D) take the state before the step, where they have rows at all.

Each inner loop writes one row: more would have to be told apart at run time, and the compiler gives that up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.ops.compiled import compiled, part
from regard.ops.compiled.cells import open_gates, through_sigmoid, through_tanh
from regard.ops.compiled.elementary import sigmoid, tanh
from regard.ops.threads import spread


@compiled
def _lstm(
    t: int,
    offset: int,
    places: Any,
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
    """c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')."""
    size = hidden.shape[1]
    keeps = len(kept_hidden) > 0
    for row in range(start, stop):
        of_row, c, h = gates[offset + row], cells[row], hidden[row]
        i, f, g, o = of_row[:size], of_row[size : 2 * size], of_row[2 * size : 3 * size], of_row[3 * size :]
        output = outputs[places[row], t, column : column + size]
        if keeps:
            kept_h, kept_c = kept_hidden[offset + row], kept_cells[offset + row]
            for d in range(size):
                kept_h[d] = h[d]
            for d in range(size):
                kept_c[d] = c[d]
        open_gates(of_row, recurrent[row], size)
        for d in range(size):
            c[d] = f[d] * c[d] + i[d] * g[d]
        for d in range(size):
            h[d] = o[d] * tanh(c[d])
        for d in range(size):
            output[d] = h[d]


@part
def _collect(size: int, grad_hidden: Any, grad_output: Any, grad_recurrent: Any, row: int) -> None:
    """Adds what a row of h got as an output and, where its sequence goes on, through the product of the step after."""
    for d in range(size):
        grad_hidden[d] += grad_output[d]
    if row < len(grad_recurrent):
        through = grad_recurrent[row]
        for d in range(size):
            grad_hidden[d] += through[d]


@compiled
def _lstm_back(
    t: int,
    offset: int,
    places: Any,
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
    """`grad_recurrent` (≤ B, D) is what h got through the product of the step after; 0 is left in `grad_hidden`."""
    size = grad_hidden.shape[1]
    tangent = np.empty_like(grad_hidden[0])
    grad_gate = np.empty_like(tangent)
    for row in range(start, stop):
        of_row, last, grad_c, grad_h = gates[offset + row], kept_cells[offset + row], grad_cells[row], grad_hidden[row]
        i, f, g, o = of_row[:size], of_row[size : 2 * size], of_row[2 * size : 3 * size], of_row[3 * size :]
        _collect(size, grad_h, grad_outputs[places[row], t, column : column + size], grad_recurrent, row)
        for d in range(size):
            tangent[d] = tanh(f[d] * last[d] + i[d] * g[d])
        for d in range(size):
            grad_c[d] += through_tanh(grad_h[d] * o[d], tangent[d])
        for d in range(size):
            o[d] = through_sigmoid(grad_h[d] * tangent[d], o[d])
        for d in range(size):
            grad_gate[d] = through_sigmoid(grad_c[d] * g[d], i[d])
        for d in range(size):
            g[d] = through_tanh(grad_c[d] * i[d], g[d])
        for d in range(size):
            i[d] = grad_gate[d]
        for d in range(size):
            grad_gate[d] = through_sigmoid(grad_c[d] * last[d], f[d])
        for d in range(size):
            grad_c[d] *= f[d]
        for d in range(size):
            f[d] = grad_gate[d]
        for d in range(size):
            grad_h[d] = 0


@compiled
def _gru(
    t: int,
    offset: int,
    places: Any,
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
    """n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h;  x of the input, s (of the state) is `recurrent`.

    The last third of `kept_recurrent` (N, 3·D) takes s_n.
    """
    size = hidden.shape[1]
    keeps = len(kept_hidden) > 0
    for row in range(start, stop):
        of_row, s, h = gates[offset + row], recurrent[row], hidden[row]
        r, z, n, s_n = of_row[:size], of_row[size : 2 * size], of_row[2 * size :], s[2 * size :]
        output = outputs[places[row], t, column : column + size]
        if keeps:
            kept_h, kept_s = kept_hidden[offset + row], kept_recurrent[offset + row, 2 * size :]
            for d in range(size):
                kept_h[d] = h[d]
            for d in range(size):
                kept_s[d] = s_n[d]
        for d in range(2 * size):
            of_row[d] = sigmoid(of_row[d] + s[d])
        for d in range(size):
            n[d] = tanh(n[d] + r[d] * s_n[d])
        for d in range(size):
            h[d] = n[d] + z[d] * (h[d] - n[d])
        for d in range(size):
            output[d] = h[d]


@compiled
def _gru_back(
    t: int,
    offset: int,
    places: Any,
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
    """As `_lstm_back`; the gradients of s fill `kept_recurrent`, and `grad_hidden` keeps what went through z."""
    size = grad_hidden.shape[1]
    grad_n = np.empty_like(grad_hidden[0])
    grad_gate = np.empty_like(grad_n)
    for row in range(start, stop):
        of_row, s, last, grad_h = (
            gates[offset + row],
            kept_recurrent[offset + row],
            kept_hidden[offset + row],
            grad_hidden[row],
        )
        r, z, n = of_row[:size], of_row[size : 2 * size], of_row[2 * size :]
        s_r, s_z, s_n = s[:size], s[size : 2 * size], s[2 * size :]
        _collect(size, grad_h, grad_outputs[places[row], t, column : column + size], grad_recurrent, row)
        for d in range(size):
            grad_n[d] = through_tanh(grad_h[d] - grad_h[d] * z[d], n[d])
        for d in range(size):
            grad_gate[d] = through_sigmoid(grad_h[d] * (last[d] - n[d]), z[d])
        for d in range(size):
            grad_h[d] *= z[d]
        for d in range(size):
            n[d] = grad_n[d]
        for d in range(size):
            z[d] = grad_gate[d]
        for d in range(size):
            s_z[d] = grad_gate[d]
        for d in range(size):
            grad_gate[d] = through_sigmoid(grad_n[d] * s_n[d], r[d])
        for d in range(size):
            s_n[d] = grad_n[d] * r[d]
        for d in range(size):
            r[d] = grad_gate[d]
        for d in range(size):
            s_r[d] = grad_gate[d]


def _by_rows(kernel: Any) -> Callable[..., None]:
    def step(t: int, offset: int, rows: int, *given: Any) -> None:
        work = 8 * rows * given[-1].shape[1]
        spread(kernel, (t, offset, *given), rows, work)

    return step


STEPS = {"lstm": _by_rows(_lstm), "gru": _by_rows(_gru)}
"""(t, offset, rows, places, outputs, column, recurrent, gates, kept…, cells, hidden)."""
STEPS_BACK = {"lstm": _by_rows(_lstm_back), "gru": _by_rows(_gru_back)}
"""The same, with what these get."""
