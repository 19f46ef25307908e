"""What a recurrent cell is: its state, its weights and its step.

    LSTM:  c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')
    GRU:   n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h
    RNN:   h' = tanh(x + s)
    GRU with the reset gate before the product:  n = tanh(x_n + U_n (σ(r) h)), the rest as a GRU's

with the gates x = W_ih x_t + b_ih of the input and s = W_hh h + b_hh of the state. An LSTM's gates are
i, f, g, o = x + s, a GRU's r = x_r + s_r and z = x_z + s_z, in torch's order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard.errors import UnsupportedError
from regard.layers.cells.reset_before import reset_before
from regard.ops.cells import gru_update, lstm_update
from regard.shapes import Float

Cell = Literal["lstm", "gru", "rnn", "gru_reset_before"]
State = tuple[Tensor, ...]
"""A layer's: (h,) or, of an LSTM, (h, c), each (R, D)."""
Parameters = tuple[Tensor, Tensor, Tensor, Tensor]
"""w_ih, w_hh, b_ih, b_hh of a layer in one direction, in torch's layout."""


class AbstractCell(ABC):
    """A kind of cell."""

    num_tensors: ClassVar[int]
    """In a state."""

    @abstractmethod
    def step(self, x: Float[Tensor, "R F"], state: State, weights: Parameters) -> State:
        """A step by torch's own operation."""

    @abstractmethod
    def update(self, x: Float[Tensor, "R G"], s: Float[Tensor, "R G"], state: State) -> State:
        """The new state, from the gates of the input and of the state, in elementary operations."""

    def advance(self, x: Float[Tensor, "R G"], state: State, w_hh: Tensor, b_hh: Tensor) -> State:
        """The new state, from the gates of the input and the state's weights, in elementary operations."""
        return self.update(x, linear(state[0], w_hh, b_hh), state)


class LstmCell(AbstractCell):
    """Long short-term memory."""

    num_tensors = 2

    def step(self, x: Tensor, state: State, weights: Parameters) -> State:
        return torch.lstm_cell(x, state, *weights)

    def update(self, x: Tensor, s: Tensor, state: State) -> State:
        return lstm_update(x, s, state[1])


class GruCell(AbstractCell):
    """Gated recurrent unit."""

    num_tensors = 1

    def step(self, x: Tensor, state: State, weights: Parameters) -> State:
        return (torch.gru_cell(x, state[0], *weights),)

    def update(self, x: Tensor, s: Tensor, state: State) -> State:
        return (gru_update(x, s, state[0]),)


class RnnCell(AbstractCell):
    """Elman's cell, with tanh."""

    num_tensors = 1

    def step(self, x: Tensor, state: State, weights: Parameters) -> State:
        return (torch.rnn_tanh_cell(x, state[0], *weights),)

    def update(self, x: Tensor, s: Tensor, state: State) -> State:
        return ((x + s).tanh(),)


class ResetBeforeCell(AbstractCell):
    """Gated recurrent unit whose reset gate multiplies the state before the product.

    Its candidate is no sum of the gates x and s, so it advances from the state's weights only.
    """

    num_tensors = 1

    def step(self, x: Tensor, state: State, weights: Parameters) -> State:
        return (reset_before(linear(x, weights[0], weights[2] + weights[3]), state[0], weights[1]),)

    def update(self, x: Tensor, s: Tensor, state: State) -> State:
        raise UnsupportedError(
            "The candidate of a GRU with the reset gate before the product is not a sum of gates: use `advance`."
        )

    def advance(self, x: Tensor, state: State, w_hh: Tensor, b_hh: Tensor) -> State:
        return (reset_before(x + b_hh, state[0], w_hh),)


CELLS: dict[str, AbstractCell] = {
    "lstm": LstmCell(),
    "gru": GruCell(),
    "rnn": RnnCell(),
    "gru_reset_before": ResetBeforeCell(),
}


def zeros(cell: str, x: Float[Tensor, "B ..."], size: int) -> State:
    """A state of zeros, (B, D) each; no tensor twice, of which torch's scan would make one."""
    return tuple(x.new_zeros(x.shape[0], size) for _ in range(CELLS[cell].num_tensors))
