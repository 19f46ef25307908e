"""Layers of recurrent cells over all steps, and their derivatives, without autograd.

What a layer is fed at every step and its last state stand side by side in one buffer, (T, B, F + D), and so do the
weights that they meet: a step is one matrix product, and so is the gradient of the weights over all steps. Gates have
torch's order: i, f, g, o and r, z, n.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

State = tuple[Tensor, ...]
Parameters = tuple[Tensor, Tensor, Tensor, Tensor]


class LstmLayer:
    """c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c').

    Args:
        weights: (w_ih, w_hh, b_ih, b_hh).
        beforehand: how many columns of w_ih meet inputs that are known before the first step.
        steps, batch: T and B.
    """

    def __init__(self, weights: Parameters, beforehand: int, steps: int, batch: int) -> None:
        w_ih, w_hh, b_ih, b_hh = weights
        self.size = w_hh.shape[1]
        self.first = w_ih[:, :beforehand]
        self.bias = b_ih + b_hh
        self.weight = torch.cat([w_ih[:, beforehand:], w_hh], 1)
        self.given = w_hh.new_empty(steps, batch, self.weight.shape[1])
        self.gates = w_hh.new_empty(steps, batch, 4 * self.size)
        self.cells = w_hh.new_empty(steps + 1, batch, self.size)
        self.tangents = w_hh.new_empty(steps, batch, self.size)

    def known(self, inputs: Tensor) -> Tensor:
        """What inputs (T, B, E) that are known beforehand add to the gates, biases included."""
        return torch.addmm(self.bias, inputs.flatten(0, 1), self.first.t()).unflatten(0, inputs.shape[:2])

    def forward(self, t: int, known: Tensor | None, fed: Tensor, state: State) -> State:
        """The new state from what is fed (B, F)."""
        given, gates, size = self.given[t], self.gates[t], self.size
        torch.cat([fed, state[0]], 1, out=given)
        torch.addmm(self.bias if known is None else known, given, self.weight.t(), out=gates)
        i, f, g, o = gates.split(size, 1)
        gates[:, : 2 * size].sigmoid_()
        g.tanh_()
        o.sigmoid_()
        if t == 0:
            self.cells[0] = state[1]
        c = torch.addcmul(torch.mul(f, state[1], out=self.cells[t + 1]), i, g, out=self.cells[t + 1])
        return torch.mul(o, torch.tanh(c, out=self.tangents[t])), c

    def backward(self, t: int, by_state: State, by_gates: Tensor) -> tuple[Tensor, State]:
        """By what was fed and by the last state; writes what the gates before their nonlinearities get."""
        by_h, by_c = by_state
        i, f, g, o = self.gates[t].split(self.size, 1)
        of_i, of_f, of_g, of_o = by_gates.split(self.size, 1)
        tangent = self.tangents[t]
        by_c = torch.addcmul(by_c, by_h * o, 1 - tangent * tangent)
        torch.mul(by_c * g, i * (1 - i), out=of_i)
        torch.mul(by_c * self.cells[t], f * (1 - f), out=of_f)
        torch.mul(by_c * i, 1 - g * g, out=of_g)
        torch.mul(by_h * tangent, o * (1 - o), out=of_o)
        by_given = by_gates @ self.weight
        width = by_given.shape[1] - self.size
        return by_given[:, :width], (by_given[:, width:], by_c * f)

    def last_states(self) -> Tensor:
        """h before every step, (T, B, D)."""
        return self.given[..., -self.size :]

    def room(self) -> Tensor:
        """Where the gradients of the gates go, (T, B, 4·D)."""
        return torch.empty_like(self.gates)

    def gradients(self, by_gates: Tensor, inputs: Tensor | None) -> tuple[Parameters, Tensor | None]:
        """Of the weights and, where there are any, of the inputs that were known beforehand."""
        flat = by_gates.flatten(0, 1)
        by_weight = flat.t() @ self.given.flatten(0, 1)
        width = by_weight.shape[1] - self.size
        by_bias = flat.sum(0)
        by_w_ih, by_inputs = by_weight[:, :width], None
        if inputs is not None:
            by_w_ih = torch.cat([flat.t() @ inputs.flatten(0, 1), by_w_ih], 1)
            by_inputs = (flat @ self.first).view_as(inputs)
        return (by_w_ih, by_weight[:, width:], by_bias, by_bias), by_inputs


class GruLayer:
    """n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h;  x of what is fed, s of the state.

    Args as in `LstmLayer`. As r stands between s_n and the sum, both contributions keep to themselves.
    """

    def __init__(self, weights: Parameters, beforehand: int, steps: int, batch: int) -> None:
        w_ih, self.w_hh, self.bias, self.b_hh = weights
        self.size = self.w_hh.shape[1]
        self.first, self.weight = w_ih[:, :beforehand], w_ih[:, beforehand:]
        self.given = w_ih.new_empty(steps, batch, self.weight.shape[1])
        self.states = w_ih.new_empty(steps, batch, self.size)
        self.both = w_ih.new_empty(steps, batch, 2 * self.size)
        self.new = w_ih.new_empty(steps, batch, self.size)
        self.recurrent = w_ih.new_empty(steps, batch, 3 * self.size)

    def known(self, inputs: Tensor) -> Tensor:
        """What inputs (T, B, E) that are known beforehand add to the gates, biases included."""
        return torch.addmm(self.bias, inputs.flatten(0, 1), self.first.t()).unflatten(0, inputs.shape[:2])

    def forward(self, t: int, known: Tensor | None, fed: Tensor, state: State) -> State:
        """The new state from what is fed (B, F)."""
        size, recurrent = self.size, self.recurrent[t]
        self.given[t], self.states[t] = fed, state[0]
        of_input = torch.addmm(self.bias if known is None else known, fed, self.weight.t())
        torch.addmm(self.b_hh, state[0], self.w_hh.t(), out=recurrent)
        both = torch.add(of_input[:, : 2 * size], recurrent[:, : 2 * size], out=self.both[t]).sigmoid_()
        r, z = both.split(size, 1)
        n = torch.addcmul(of_input[:, 2 * size :], r, recurrent[:, 2 * size :], out=self.new[t]).tanh_()
        return (torch.lerp(n, state[0], z),)

    def backward(self, t: int, by_state: State, by_gates: Tensor) -> tuple[Tensor, State]:
        """By what was fed and by the last state; writes what r, z, n and the state's part of n get."""
        (by_h,) = by_state
        r, z = self.both[t].split(self.size, 1)
        of_r, of_z, of_n, of_recurrent = by_gates.split(self.size, 1)
        n = self.new[t]
        torch.mul(by_h * (1 - z), 1 - n * n, out=of_n)
        torch.mul(of_n * self.recurrent[t, :, 2 * self.size :], r * (1 - r), out=of_r)
        torch.mul(by_h * (self.states[t] - n), z * (1 - z), out=of_z)
        torch.mul(of_n, r, out=of_recurrent)
        by_fed = by_gates[:, : 3 * self.size] @ self.weight
        by_last = torch.addmm(by_h * z, by_gates[:, : 2 * self.size], self.w_hh[: 2 * self.size])
        return by_fed, (by_last.addmm_(of_recurrent, self.w_hh[2 * self.size :]),)

    def last_states(self) -> Tensor:
        """h before every step, (T, B, D)."""
        return self.states

    def room(self) -> Tensor:
        """Where the gradients go, (T, B, 4·D)."""
        return self.both.new_empty(*self.both.shape[:2], 4 * self.size)

    def gradients(self, by_gates: Tensor, inputs: Tensor | None) -> tuple[Parameters, Tensor | None]:
        """Of the weights and, where there are any, of the inputs that were known beforehand."""
        of_input = by_gates[..., : 3 * self.size].flatten(0, 1)
        of_state = torch.cat([by_gates[..., : 2 * self.size], by_gates[..., 3 * self.size :]], 2).flatten(0, 1)
        by_w_ih, by_inputs = of_input.t() @ self.given.flatten(0, 1), None
        if inputs is not None:
            by_w_ih = torch.cat([of_input.t() @ inputs.flatten(0, 1), by_w_ih], 1)
            by_inputs = (of_input @ self.first).view_as(inputs)
        by_w_hh = of_state.t() @ self.states.flatten(0, 1)
        return (by_w_ih, by_w_hh, of_input.sum(0), of_state.sum(0)), by_inputs


LAYERS: dict[str, type[LstmLayer] | type[GruLayer]] = {"lstm": LstmLayer, "gru": GruLayer}


def stack_of(
    cell: str, weights: Sequence[Parameters], beforehand: int, steps: int, batch: int
) -> list[LstmLayer | GruLayer]:
    """A layer each; of the first one's inputs `beforehand` features are known before the first step."""
    return [LAYERS[cell](own, 0 if index else beforehand, steps, batch) for index, own in enumerate(weights)]
