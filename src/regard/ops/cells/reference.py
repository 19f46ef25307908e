"""Steps of cells as operations of torch, for passes without autograd.

    LSTM:  (i, f, g, o) = W [x_t; h_{t-1}] + b
           c_t = σ(f) c_{t-1} + σ(i) tanh(g),  h_t = σ(o) tanh(c_t)
    GRU:   x = W_ih x_t + b_ih,  s = W_hh h_{t-1} + b_hh,  r = σ(x_r + s_r),  z = σ(x_z + s_z)
           n = tanh(x_n + r s_n),  h_t = (1 - z) n + z h_{t-1}

The products W … are the caller's; here is what comes after them. An LSTM's gates have torch's order, i, f, g, o; a
GRU's are n, r, z in x and r, z, n in s, so that r and z stand side by side in both.
"""

from __future__ import annotations

import torch
from torch import Tensor


def lstm(gates: Tensor, bias: Tensor, last_cells: Tensor, cells: Tensor, tangents: Tensor, hidden: Tensor) -> None:
    """An LSTM's step.

    Args:
        gates: (B, 4·D), before their nonlinearities and, when done, behind them.
        bias: (4·D), added to the gates first.
        last_cells: (B, D), c_{t-1}.
        cells, tangents, hidden: (B, D), take c_t, tanh(c_t) and h_t.
    """
    size = cells.shape[1]
    i, f, g, o = gates.add_(bias).split(size, 1)
    gates[:, : 2 * size].sigmoid_()
    g.tanh_()
    o.sigmoid_()
    torch.addcmul(torch.mul(f, last_cells, out=cells), i, g, out=cells)
    torch.mul(o, torch.tanh(cells, out=tangents), out=hidden)


def lstm_backward(
    gates: Tensor, last_cells: Tensor, tangents: Tensor, grad_hidden: Tensor, grad_cells: Tensor, grad_gates: Tensor
) -> None:
    """An LSTM's step backward.

    Args:
        gates: (B, 4·D), behind their nonlinearities.
        grad_hidden: (B, D), of h_t.
        grad_cells: (B, D), of c_t and, when done, of c_{t-1}.
        grad_gates: (B, 4·D), takes the gradient of the gates before their nonlinearities.
    """
    size = last_cells.shape[1]
    i, f, g, o = gates.split(size, 1)
    grad_i, grad_f, grad_g, grad_o = grad_gates.split(size, 1)
    grad_cells.addcmul_(grad_hidden * o, 1 - tangents * tangents)
    torch.mul(grad_cells * g, i * (1 - i), out=grad_i)
    torch.mul(grad_cells * last_cells, f * (1 - f), out=grad_f)
    torch.mul(grad_cells * i, 1 - g * g, out=grad_g)
    torch.mul(grad_hidden * tangents, o * (1 - o), out=grad_o)
    grad_cells.mul_(f)


def gru(gates: Tensor, bias: Tensor, recurrent: Tensor, last: Tensor, hidden: Tensor) -> None:
    """A GRU's step.

    Args:
        gates: (B, 3·D), x in the order n, r, z; n, r and z behind their nonlinearities afterwards.
        bias: (3·D), added to x first.
        recurrent: s (B, 3·D), in the order r, z, n.
        last: (B, D), h_{t-1}.
        hidden: (B, D), takes h_t.
    """
    size = last.shape[1]
    n, r, z = gates.add_(bias).split(size, 1)
    gates[:, size:].add_(recurrent[:, : 2 * size]).sigmoid_()
    n.addcmul_(r, recurrent[:, 2 * size :]).tanh_()
    torch.lerp(n, last, z, out=hidden)


def gru_backward(gates: Tensor, recurrent: Tensor, last: Tensor, grad_hidden: Tensor, grad_gates: Tensor) -> None:
    """A GRU's step backward.

    Args:
        gates: (B, 3·D), n, r and z.
        grad_hidden: (B, D), of h_t and, when done, the part of h_{t-1}'s that comes through z.
        grad_gates: (B, 4·D), takes the gradients of x_n, of r and z before σ, and of s_n: those of x are its first 3·D
            columns and those of s its last 3·D.
    """
    size = last.shape[1]
    n, r, z = gates.split(size, 1)
    grad_n, grad_r, grad_z, grad_s = grad_gates.split(size, 1)
    torch.mul(grad_hidden * (1 - z), 1 - n * n, out=grad_n)
    torch.mul(grad_n * recurrent[:, 2 * size :], r * (1 - r), out=grad_r)
    torch.mul(grad_hidden * (last - n), z * (1 - z), out=grad_z)
    torch.mul(grad_n, r, out=grad_s)
    grad_hidden.mul_(z)


def lstm_update(x: Tensor, s: Tensor, last_cells: Tensor) -> tuple[Tensor, Tensor]:
    """h_t and c_t (B, D) from the gates (B, 4·D) of the input and of the state, for autograd and transforms."""
    i, f, g, o = (x + s).chunk(4, -1)
    cells = f.sigmoid() * last_cells + i.sigmoid() * g.tanh()
    return o.sigmoid() * cells.tanh(), cells


def gru_update(x: Tensor, s: Tensor, last: Tensor) -> Tensor:
    """h_t (B, D) from the gates (B, 3·D) of the input and of the state, both r, z, n, for autograd and transforms."""
    (x_r, x_z, x_n), (s_r, s_z, s_n) = x.chunk(3, -1), s.chunk(3, -1)
    z, n = (x_z + s_z).sigmoid(), (x_n + (x_r + s_r).sigmoid() * s_n).tanh()
    return (1 - z) * n + z * last
