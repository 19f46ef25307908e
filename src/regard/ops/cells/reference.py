"""Cells as operations of torch.

Buffers hold all steps and time comes first; `t` is the step. `hidden` has h_{t-1} as the last D columns of its row t,
and h_t goes into row t + 1. An LSTM's gates have torch's order, i, f, g, o; a GRU's are n, r, z where they meet what is
fed, and r, z, n where they meet the state. Rows may share what is known of them beforehand: `whose` (B,) says where in
`known` and `recurrent` theirs stands; without it each has its own.
"""

from __future__ import annotations

import torch
from torch import Tensor


def lstm(
    t: int,
    gates: Tensor,
    known: Tensor,
    cells: Tensor,
    tangents: Tensor,
    hidden: Tensor,
    whose: Tensor | None = None,
) -> None:
    """c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c').

    Args:
        gates: (B, 4·D), before their nonlinearities and, when done, behind them.
        known: (B, U or 1, 4·D), added to the gates first.
        cells: (T + 1, B, D), c_{t-1} in row t.
        tangents: (T, B, D), of c'.
        hidden: (T + 1, B, ≥ D).
    """
    size = cells.shape[2]
    i, f, g, o = gates.add_(_taken(known, whose)).split(size, 1)
    gates[:, : 2 * size].sigmoid_()
    g.tanh_()
    o.sigmoid_()
    c = torch.addcmul(torch.mul(f, cells[t], out=cells[t + 1]), i, g, out=cells[t + 1])
    torch.mul(o, torch.tanh(c, out=tangents[t]), out=hidden[t + 1, :, -size:])


def lstm_back(
    t: int, gates: Tensor, cells: Tensor, tangents: Tensor, by_hidden: Tensor, by_cells: Tensor, by_gates: Tensor
) -> None:
    """Writes what the gates before their nonlinearities get, (T, B, 4·D).

    Args:
        by_hidden: (B, D).
        by_cells: (B, D), by c_t and, when done, by c_{t-1}.
    """
    i, f, g, o = gates.split(cells.shape[2], 1)
    of_i, of_f, of_g, of_o = by_gates[t].split(cells.shape[2], 1)
    tangent = tangents[t]
    by_cells.addcmul_(by_hidden * o, 1 - tangent * tangent)
    torch.mul(by_cells * g, i * (1 - i), out=of_i)
    torch.mul(by_cells * cells[t], f * (1 - f), out=of_f)
    torch.mul(by_cells * i, 1 - g * g, out=of_g)
    torch.mul(by_hidden * tangent, o * (1 - o), out=of_o)
    by_cells.mul_(f)


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
    """n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h;  x of what is fed, s of the state.

    Args:
        fed: x (B, 3·D).
        known: (B, U or 1, 3·D), added to x.
        recurrent: s (B or U, 3·D).
        both: σ of r and z, (T, B, 2·D).
        new: n, (T, B, D).
        hidden: (T + 1, B, ≥ D).
    """
    size = new.shape[2]
    x, recurrent = fed + _taken(known, whose), _taken(recurrent, whose)
    torch.add(x[:, size:], recurrent[:, : 2 * size], out=both[t]).sigmoid_()
    r, z = both[t].split(size, 1)
    n = torch.addcmul(x[:, :size], r, recurrent[:, 2 * size :], out=new[t]).tanh_()
    torch.lerp(n, hidden[t, :, -size:], z, out=hidden[t + 1, :, -size:])


def gru_back(
    t: int, recurrent: Tensor, both: Tensor, new: Tensor, hidden: Tensor, by_hidden: Tensor, by_gates: Tensor
) -> None:
    """Writes what n, r, z and the state's part of n get, (T, B, 4·D).

    Args:
        by_hidden: (B, D), by h_t and, when done, by h_{t-1} where z kept it.
    """
    size = new.shape[2]
    r, z = both[t].split(size, 1)
    of_n, of_r, of_z, of_recurrent = by_gates[t].split(size, 1)
    n = new[t]
    torch.mul(by_hidden * (1 - z), 1 - n * n, out=of_n)
    torch.mul(of_n * recurrent[:, 2 * size :], r * (1 - r), out=of_r)
    torch.mul(by_hidden * (hidden[t, :, -size:] - n), z * (1 - z), out=of_z)
    torch.mul(of_n, r, out=of_recurrent)
    by_hidden.mul_(z)


def read_out(t: int, sums: Tensor, outputs: Tensor, column: int) -> None:
    """Writes tanh(sums), (B, D), into row t + 1 of `outputs` (T + 1, B, ≥ column + D), from a column on."""
    outputs[t + 1, :, column : column + sums.shape[1]] = sums.tanh()


def read_out_back(t: int, by_later: Tensor, by_outputs: Tensor, outputs: Tensor, column: int, by_sums: Tensor) -> None:
    """Writes what the sums get, (T, B, D), into row t.

    Args:
        by_later: (B, D), by the output of this step in later ones.
        by_outputs: (T, B, D), by the outputs themselves, or without rows.
    """
    by_output = by_later + by_outputs[t] if len(by_outputs) else by_later
    output = outputs[t + 1, :, column : column + by_later.shape[1]]
    torch.mul(by_output, 1 - output * output, out=by_sums[t])


def tanh_of_sum(first: Tensor, second: Tensor) -> None:
    """first ← tanh(first + second)."""
    first.add_(second).tanh_()


def _taken(given: Tensor, whose: Tensor | None) -> Tensor:
    return given if whose is None or len(given) == 1 else given[whose]
