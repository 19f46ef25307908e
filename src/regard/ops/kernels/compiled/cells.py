"""The step of one row of a recurrent cell, and its gradients, as subroutines of kernels.

    LSTM:  c_t = σ(f) c_{t-1} + σ(i) tanh(g),  h_t = σ(o) tanh(c_t)
    GRU:   r = σ(x_r + s_r),  z = σ(x_z + s_z),  n = tanh(x_n + r s_n),  h_t = n + z (h_{t-1} - n)

A loop over d is one line of these equations and writes one row (D): loops that write several rows, which may overlap,
do not become vector instructions. Rows stay in the first cache between loops. For the same reason inputs and outputs
are different rows: a kernel that stores only the newest state passes a copy of it as the last one.

Gradients of x from those of y: σ has y - y², tanh has 1 - y².
"""

from __future__ import annotations

from typing import Any

from regard.ops.kernels.compiled import subroutine
from regard.ops.kernels.compiled.elementary import sigmoid, tanh


@subroutine
def through_sigmoid(gradient: Any, y: Any) -> Any:
    """The gradient of x, from that of y = σ(x)."""
    return gradient * (y - y * y)


@subroutine
def through_tanh(gradient: Any, y: Any) -> Any:
    """The gradient of x, from that of y = tanh(x)."""
    return gradient - gradient * (y * y)


@subroutine
def lstm_row(size: int, gates: Any, added: Any, last_c: Any, c: Any, tangent: Any, h: Any) -> None:
    """An LSTM's step.

    Args:
        gates: (4·D), i, f, g and o before their nonlinearities; overwritten with those after them.
        added: (4·D), added to the gates.
        last_c: (D), c_{t-1}.
        c: (D), output: c_t.
        tangent: (D), output: tanh(c_t).
        h: (D), output: h_t.
    """
    i, f, g, o = gates[:size], gates[size : 2 * size], gates[2 * size : 3 * size], gates[3 * size :]
    added_g, added_o = added[2 * size : 3 * size], added[3 * size :]
    for d in range(2 * size):  # i and f
        gates[d] = sigmoid(gates[d] + added[d])
    for d in range(size):
        g[d] = tanh(g[d] + added_g[d])
    for d in range(size):
        o[d] = sigmoid(o[d] + added_o[d])
    for d in range(size):
        c[d] = f[d] * last_c[d] + i[d] * g[d]
    for d in range(size):
        tangent[d] = tanh(c[d])
    for d in range(size):
        h[d] = o[d] * tangent[d]


@subroutine
def lstm_row_backward(
    size: int, gates: Any, last_c: Any, tangent: Any, grad_h: Any, grad_c: Any, grad_gates: Any
) -> None:
    """An LSTM's step backward.

    Args:
        gates: (4·D), after their nonlinearities.
        grad_h: (D), of h_t.
        grad_c: (D), of c_t through the next step; overwritten with that of c_{t-1}.
        grad_gates: (4·D), output: the gradient of the gates before their nonlinearities.
    """
    i, f, g, o = gates[:size], gates[size : 2 * size], gates[2 * size : 3 * size], gates[3 * size :]
    grad_i, grad_f, grad_g, grad_o = (
        grad_gates[:size],
        grad_gates[size : 2 * size],
        grad_gates[2 * size : 3 * size],
        grad_gates[3 * size :],
    )
    # h = o tanh(c): the gradients of o, and of c, added to that through the next step
    for d in range(size):
        grad_o[d] = through_sigmoid(grad_h[d] * tangent[d], o[d])
    for d in range(size):
        grad_c[d] += through_tanh(grad_h[d] * o[d], tangent[d])
    # c = f c_{t-1} + i g
    for d in range(size):
        grad_i[d] = through_sigmoid(grad_c[d] * g[d], i[d])
    for d in range(size):
        grad_g[d] = through_tanh(grad_c[d] * i[d], g[d])
    for d in range(size):
        grad_f[d] = through_sigmoid(grad_c[d] * last_c[d], f[d])
    for d in range(size):
        grad_c[d] *= f[d]


@subroutine
def gru_row(size: int, rz: Any, n: Any, added_rz: Any, added_n: Any, s: Any, last_h: Any, h: Any) -> None:
    """A GRU's step.

    Args:
        rz: (2·D), x_r and x_z; overwritten with r and z.
        n: (D), x_n; overwritten with n.
        added_rz, added_n: (2·D) and (D), added to rz and n.
        s: (3·D), s_r, s_z and s_n.
        last_h: (D), h_{t-1}.
        h: (D), output: h_t.
    """
    r, z, s_n = rz[:size], rz[size:], s[2 * size :]
    for d in range(2 * size):  # r and z
        rz[d] = sigmoid(rz[d] + added_rz[d] + s[d])
    for d in range(size):
        n[d] = tanh(n[d] + added_n[d] + r[d] * s_n[d])
    for d in range(size):
        h[d] = n[d] + z[d] * (last_h[d] - n[d])


@subroutine
def gru_row_backward(
    size: int, rz: Any, n: Any, s_n: Any, last_h: Any, grad_h: Any, grad_n: Any, grad_rz: Any, grad_s: Any
) -> None:
    """A GRU's step backward.

    Args:
        rz: (2·D), r and z.
        grad_h: (D), of h_t; overwritten with the part of that of h_{t-1} through z. The caller adds the part through s.
        grad_n: (D), output: the gradient of x_n.
        grad_rz: (2·D), output: those of x_r and x_z, which are those of s_r and s_z.
        grad_s: (D), output: that of s_n.
    """
    r, z, grad_r, grad_z = rz[:size], rz[size:], grad_rz[:size], grad_rz[size:]
    # h = (1 - z) n + z h_{t-1}: n first, through which r and s_n have gradients
    for d in range(size):
        grad_n[d] = through_tanh(grad_h[d] - grad_h[d] * z[d], n[d])
    for d in range(size):
        grad_r[d] = through_sigmoid(grad_n[d] * s_n[d], r[d])
    for d in range(size):
        grad_z[d] = through_sigmoid(grad_h[d] * (last_h[d] - n[d]), z[d])
    for d in range(size):
        grad_s[d] = grad_n[d] * r[d]
    for d in range(size):
        grad_h[d] *= z[d]
