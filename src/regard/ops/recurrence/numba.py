"""Cells as compiled loops over packed rows; the equations are those of `regard.ops.cells.reference`.

Rows of all steps stand one below the other, those of step t from `offset` on, the longest sequence first; so the rows
that are still alive are the first ones. `hidden` and `cells` (B, D) hold the last state and then the new one; `places`
(B,) are the rows' places in the batch, and `column` is where a direction's features begin in `outputs` (B, S, ≥ D).

`gates` (N, 3·D or 4·D) has W_ih x + b before a step, the gates behind their nonlinearities after it, and their
gradients after the backward step: nothing else of that size is made. `recurrent` is W_hh h + b of the rows alive.
`kept_hidden` and `kept_cells` (N, D) take the state before the step, where they have rows at all.

A loop over d writes one row only: with several the compiler would have to check at run time that they do not overlap,
and gives vector instructions up.
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
    """An LSTM's step; c and h are written in place."""
    size = hidden.shape[1]
    keeps = len(kept_hidden) > 0
    for row in range(start, stop):
        gate, c, h = gates[offset + row], cells[row], hidden[row]
        i, f, g, o = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
        output = outputs[places[row], t, column : column + size]
        if keeps:
            kept_h, kept_c = kept_hidden[offset + row], kept_cells[offset + row]
            for d in range(size):
                kept_h[d] = h[d]
            for d in range(size):
                kept_c[d] = c[d]
        open_gates(gate, recurrent[row], size)
        for d in range(size):
            c[d] = f[d] * c[d] + i[d] * g[d]
        for d in range(size):
            h[d] = o[d] * tanh(c[d])
        for d in range(size):
            output[d] = h[d]


@part
def _collect(size: int, grad_hidden: Any, grad_output: Any, grad_recurrent: Any, row: int) -> None:
    """Adds to h's gradient the output's and, where the sequence goes on, that through the next step's product."""
    for d in range(size):
        grad_hidden[d] += grad_output[d]
    if row < len(grad_recurrent):
        through = grad_recurrent[row]
        for d in range(size):
            grad_hidden[d] += through[d]


@compiled
def _lstm_backward(
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
    """An LSTM's step backward; gradients of the gates take their place.

    Args:
        grad_recurrent: (≤ B, D), of h through the product of the next step, which the caller made.
        grad_hidden: (B, D), of h in other ways; 0 afterwards.
        grad_cells: (B, D), of c_t and, when done, of c_{t-1}.
    """
    size = grad_hidden.shape[1]
    tangent = np.empty_like(grad_hidden[0])
    grad_gate = np.empty_like(tangent)
    for row in range(start, stop):
        gate, last, grad_c, grad_h = gates[offset + row], kept_cells[offset + row], grad_cells[row], grad_hidden[row]
        i, f, g, o = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
        _collect(size, grad_h, grad_outputs[places[row], t, column : column + size], grad_recurrent, row)
        # tanh(c_t) was not kept: computed again from the gates, it costs less than writing and reading it
        for d in range(size):
            tangent[d] = tanh(f[d] * last[d] + i[d] * g[d])
        for d in range(size):
            grad_c[d] += through_tanh(grad_h[d] * o[d], tangent[d])
        for d in range(size):
            o[d] = through_sigmoid(grad_h[d] * tangent[d], o[d])
        # each gate's gradient waits in `grad_gate` until nothing needs the gate itself any more
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
    """A GRU's step; s is `recurrent`. The backward step needs s_n: the last third of `kept_recurrent` takes it."""
    size = hidden.shape[1]
    keeps = len(kept_hidden) > 0
    for row in range(start, stop):
        gate, s, h = gates[offset + row], recurrent[row], hidden[row]
        r, z, n, s_n = gate[:size], gate[size : 2 * size], gate[2 * size :], s[2 * size :]
        output = outputs[places[row], t, column : column + size]
        if keeps:
            kept_h, kept_s = kept_hidden[offset + row], kept_recurrent[offset + row, 2 * size :]
            for d in range(size):
                kept_h[d] = h[d]
            for d in range(size):
                kept_s[d] = s_n[d]
        for d in range(2 * size):
            gate[d] = sigmoid(gate[d] + s[d])
        for d in range(size):
            n[d] = tanh(n[d] + r[d] * s_n[d])
        for d in range(size):
            h[d] = n[d] + z[d] * (h[d] - n[d])
        for d in range(size):
            output[d] = h[d]


@compiled
def _gru_backward(
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
    """A GRU's step backward: gradients of x in `gates`, of s in `kept_recurrent`, through z in `grad_hidden`."""
    size = grad_hidden.shape[1]
    grad_n = np.empty_like(grad_hidden[0])
    grad_gate = np.empty_like(grad_n)
    for row in range(start, stop):
        gate, s, last, grad_h = (
            gates[offset + row],
            kept_recurrent[offset + row],
            kept_hidden[offset + row],
            grad_hidden[row],
        )
        r, z, n = gate[:size], gate[size : 2 * size], gate[2 * size :]
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
    def step(t: int, offset: int, rows: int, *buffers: Any) -> None:
        spread(kernel, (t, offset, *buffers), rows, 8 * rows * buffers[-1].shape[1])

    return step


STEPS = {"lstm": _by_rows(_lstm), "gru": _by_rows(_gru)}
"""(t, offset, rows, places, outputs, column, recurrent, gates, kept…, cells, hidden)."""
STEPS_BACKWARD = {"lstm": _by_rows(_lstm_backward), "gru": _by_rows(_gru_backward)}
"""The same, with their gradients."""
