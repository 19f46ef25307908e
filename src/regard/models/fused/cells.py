"""Recurrent cells and their derivatives, a step at a time and without autograd.

What the input and the last state contribute to the gates comes from outside, where it is one matrix product; here is
what lies between gates and state. Gates have torch's order: i, f, g, o and r, z, n.
"""

from __future__ import annotations

import torch
from torch import Tensor


class LstmCell:
    """c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c');  the gates are the sum of both contributions."""

    num_gates = 4

    @staticmethod
    def forward(
        of_input: Tensor, of_state: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The new state (h, c) from contributions (R, 4·D), and what the derivative needs."""
        gates = of_input + of_state
        i, f, g, o = gates.chunk(4, 1)
        gates[:, : 2 * i.shape[1]].sigmoid_()
        g.tanh_()
        o.sigmoid_()
        c = torch.addcmul(f * state[1], i, g)
        tangent = c.tanh()
        return (o * tangent, c), (gates, tangent)

    @staticmethod
    def backward(
        by_state: tuple[Tensor, ...], saved: tuple[Tensor, ...], before: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, Tensor | None, tuple[Tensor, ...]]:
        """By both contributions; by the last h and the rest of the last state, beside that."""
        by_h, by_c = by_state
        gates, tangent = saved
        i, f, g, o = gates.chunk(4, 1)
        by_c = by_c + by_h * o * (1 - tangent * tangent)
        by_gates = torch.cat([by_c * g, by_c * before[1], by_c * i, by_h * tangent], 1)
        slope = gates * (1 - gates)
        slope[:, 2 * g.shape[1] : 3 * g.shape[1]] = 1 - g * g
        by_gates *= slope
        return by_gates, by_gates, None, (by_c * f,)


class GruCell:
    """n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h;  x of the input, s of the state."""

    num_gates = 3

    @staticmethod
    def forward(
        of_input: Tensor, of_state: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The new state (h,) from contributions (R, 3·D), and what the derivative needs."""
        size = state[0].shape[1]
        both = (of_input[:, : 2 * size] + of_state[:, : 2 * size]).sigmoid_()
        r, z = both.chunk(2, 1)
        recurrent = of_state[:, 2 * size :]
        n = torch.addcmul(of_input[:, 2 * size :], r, recurrent).tanh_()
        return (torch.lerp(n, state[0], z),), (both, n, recurrent)

    @staticmethod
    def backward(
        by_state: tuple[Tensor, ...], saved: tuple[Tensor, ...], before: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, Tensor | None, tuple[Tensor, ...]]:
        """By both contributions; by the last h and the rest of the last state, beside that."""
        (by_h,) = by_state
        both, n, recurrent = saved
        r, z = both.chunk(2, 1)
        by_n = by_h * (1 - z) * (1 - n * n)
        by_r = by_n * recurrent * r * (1 - r)
        by_z = by_h * (before[0] - n) * z * (1 - z)
        return torch.cat([by_r, by_z, by_n], 1), torch.cat([by_r, by_z, by_n * r], 1), by_h * z, ()


CELLS: dict[str, type[LstmCell] | type[GruCell]] = {"lstm": LstmCell, "gru": GruCell}
