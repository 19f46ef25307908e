"""Steps of cells as operations of torch, in buffers of all steps.

    LSTM:  (i, f, g, o) = W [x_t; h_{t-1}] + b
           c_t = σ(f) c_{t-1} + σ(i) tanh(g),  h_t = σ(o) tanh(c_t)
    GRU:   x = W_ih x_t + b_ih,  s = W_hh h_{t-1} + b_hh,  r = σ(x_r + s_r),  z = σ(x_z + s_z)
           n = tanh(x_n + r s_n),  h_t = (1 - z) n + z h_{t-1}

The products W … are the caller's; here is what comes after them. Time comes first and `t` is the step. `hidden` has
h_{t-1} as the last D columns of its row t, and h_t goes into row t + 1. An LSTM's gates have torch's order, i, f, g, o;
a GRU's are n, r, z in x and r, z, n in s, so that r and z stand side by side in both.

Hypotheses of one parent share what is made of its state: `parent` (B,) says which row of `shared` and `recurrent` is
that of each row. None means its own.
"""

from __future__ import annotations

import torch
from torch import Tensor


def lstm(
    t: int,
    gates: Tensor,
    shared: Tensor,
    cells: Tensor,
    tangents: Tensor,
    hidden: Tensor,
    parent: Tensor | None = None,
) -> None:
    """An LSTM's step.

    Args:
        gates: (B, 4·D), before their nonlinearities and, when done, behind them.
        shared: (B, U or 1, 4·D), added to the gates first: a bias, or what a parent's state contributes.
        cells: (T + 1, B, D), c_{t-1} in row t.
        tangents: (T, B, D), of c'.
        hidden: (T + 1, B, ≥ D).
    """
    size = cells.shape[2]
    i, f, g, o = gates.add_(_of_rows(shared, parent)).split(size, 1)
    gates[:, : 2 * size].sigmoid_()
    g.tanh_()
    o.sigmoid_()
    c = torch.addcmul(torch.mul(f, cells[t], out=cells[t + 1]), i, g, out=cells[t + 1])
    torch.mul(o, torch.tanh(c, out=tangents[t]), out=hidden[t + 1, :, -size:])


def lstm_backward(
    t: int, gates: Tensor, cells: Tensor, tangents: Tensor, grad_hidden: Tensor, grad_cells: Tensor, grad_gates: Tensor
) -> None:
    """An LSTM's step backward: fills `grad_gates[t]`, the gradient of the gates before their nonlinearities.

    Args:
        grad_hidden: (B, D), of h_t.
        grad_cells: (B, D), of c_t and, when done, of c_{t-1}.
        grad_gates: (T, B, 4·D).
    """
    i, f, g, o = gates.split(cells.shape[2], 1)
    grad_i, grad_f, grad_g, grad_o = grad_gates[t].split(cells.shape[2], 1)
    tangent = tangents[t]
    grad_cells.addcmul_(grad_hidden * o, 1 - tangent * tangent)
    torch.mul(grad_cells * g, i * (1 - i), out=grad_i)
    torch.mul(grad_cells * cells[t], f * (1 - f), out=grad_f)
    torch.mul(grad_cells * i, 1 - g * g, out=grad_g)
    torch.mul(grad_hidden * tangent, o * (1 - o), out=grad_o)
    grad_cells.mul_(f)


def gru(t: int, gates: Tensor, shared: Tensor, recurrent: Tensor, hidden: Tensor, parent: Tensor | None = None) -> None:
    """A GRU's step.

    Args:
        gates: (B, 3·D), x in the order n, r, z; n, r and z behind their nonlinearities afterwards.
        shared: (B, U or 1, 3·D), added to x first: its bias, or what a parent's state contributes.
        recurrent: s (B or U, 3·D), in the order r, z, n.
        hidden: (T + 1, B, ≥ D).
    """
    size = gates.shape[1] // 3
    gates.add_(_of_rows(shared, parent))
    s, (n, r, z) = _of_rows(recurrent, parent), gates.split(size, 1)
    gates[:, size:].add_(s[:, : 2 * size]).sigmoid_()
    n.addcmul_(r, s[:, 2 * size :]).tanh_()
    torch.lerp(n, hidden[t, :, -size:], z, out=hidden[t + 1, :, -size:])


def gru_backward(
    t: int, recurrent: Tensor, gates: Tensor, hidden: Tensor, grad_hidden: Tensor, grad_gates: Tensor
) -> None:
    """A GRU's step backward: fills `grad_gates[t]` with the gradients of x_n, of r and z before σ, and of s_n.

    So those of x are its first 3·D columns and those of s its last 3·D.

    Args:
        gates: (B, 3·D), n, r and z.
        grad_hidden: (B, D), of h_t and, when done, the part of h_{t-1}'s that comes through z.
        grad_gates: (T, B, 4·D).
    """
    size = grad_hidden.shape[1]
    n, r, z = gates.split(size, 1)
    grad_n, grad_r, grad_z, grad_s = grad_gates[t].split(size, 1)
    torch.mul(grad_hidden * (1 - z), 1 - n * n, out=grad_n)
    torch.mul(grad_n * recurrent[:, 2 * size :], r * (1 - r), out=grad_r)
    torch.mul(grad_hidden * (hidden[t, :, -size:] - n), z * (1 - z), out=grad_z)
    torch.mul(grad_n, r, out=grad_s)
    grad_hidden.mul_(z)


def read_out(t: int, sums: Tensor, outputs: Tensor, column: int) -> None:
    """Writes tanh(sums), (B, D), into row t + 1 of `outputs` (T + 1, B, ≥ column + D), from a column on."""
    outputs[t + 1, :, column : column + sums.shape[1]] = sums.tanh()


def read_out_backward(
    t: int, grad_later: Tensor, grad_outputs: Tensor, outputs: Tensor, column: int, grad_sums: Tensor
) -> None:
    """Fills `grad_sums[t]`, (B, D).

    Args:
        grad_later: (B, D), of this step's output from the steps after it, which it is fed to.
        grad_outputs: (T, B, D), of the outputs themselves; without rows where there is none.
        grad_sums: (T, B, D).
    """
    grad_output = grad_later + grad_outputs[t] if len(grad_outputs) else grad_later
    output = outputs[t + 1, :, column : column + grad_later.shape[1]]
    torch.mul(grad_output, 1 - output * output, out=grad_sums[t])


def tanh_of_sum(first: Tensor, second: Tensor) -> None:
    """first ← tanh(first + second)."""
    first.add_(second).tanh_()


def _of_rows(shared: Tensor, parent: Tensor | None) -> Tensor:
    return shared if parent is None or len(shared) == 1 else shared[parent]
