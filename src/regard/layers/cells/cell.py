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
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.errors import UnsupportedError
from regard.layers.cells.reset_before import ResetBeforeGRU, reset_before
from regard.layers.eligibility import ineligible
from regard.ops.cells.reference import gru_update, lstm_update
from regard.shapes import Float

Cell = Literal["lstm", "gru", "rnn", "gru_reset_before"]
State = tuple[Tensor, ...]
"""A layer's: (h,) or, of an LSTM, (h, c), each (R, D)."""
Parameters = tuple[Tensor, Tensor, Tensor, Tensor]
"""w_ih, w_hh, b_ih, b_hh of a layer in one direction, in torch's layout."""


class AbstractCell(ABC):
    """A kind of cell."""

    layer: ClassVar[Any]
    """torch's layer of such cells."""
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

    layer, num_tensors = nn.LSTM, 2

    def step(self, x: Tensor, state: State, weights: Parameters) -> State:
        return torch.lstm_cell(x, state, *weights)

    def update(self, x: Tensor, s: Tensor, state: State) -> State:
        return lstm_update(x, s, state[1])


class GruCell(AbstractCell):
    """Gated recurrent unit."""

    layer, num_tensors = nn.GRU, 1

    def step(self, x: Tensor, state: State, weights: Parameters) -> State:
        return (torch.gru_cell(x, state[0], *weights),)

    def update(self, x: Tensor, s: Tensor, state: State) -> State:
        return (gru_update(x, s, state[0]),)


class RnnCell(AbstractCell):
    """Elman's cell, with tanh."""

    layer, num_tensors = nn.RNN, 1

    def step(self, x: Tensor, state: State, weights: Parameters) -> State:
        return (torch.rnn_tanh_cell(x, state[0], *weights),)

    def update(self, x: Tensor, s: Tensor, state: State) -> State:
        return ((x + s).tanh(),)


class ResetBeforeCell(AbstractCell):
    """Gated recurrent unit whose reset gate multiplies the state before the product.

    Its candidate is no sum of the gates x and s, so it advances from the state's weights only.
    """

    layer, num_tensors = ResetBeforeGRU, 1

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


def name_of(layer: nn.Module) -> str | None:
    """The name of a layer's cell in `CELLS`; None of any other type."""
    return next((name for name, cell in CELLS.items() if type(layer) is cell.layer), None)


def parameters(layer: Any) -> list[Parameters]:
    """The weights of a layer of torch's or a `ResetBeforeGRU`, whose b_hh are zeros, of each of its directions."""
    kinds = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
    if has_one := isinstance(layer, ResetBeforeGRU):
        kinds = ["weight_ih", "weight_hh", "bias"]
    suffixes = ["", "_reverse"] if layer.bidirectional else [""]
    weights: Any = [[getattr(layer, f"{kind}_l0{suffix}") for kind in kinds] for suffix in suffixes]
    return [(*each, torch.zeros_like(each[2])) if has_one else tuple(each) for each in weights]


def ineligible_layer(layer: Any, name: str = "the layer") -> str | None:
    """Why a layer has to be called, or None where `weight_ih_l0` and its like say all that it does."""
    if (reason := ineligible(layer, name, nn.LSTM, nn.GRU, nn.RNN)) is not None:
        return reason
    if layer.num_layers != 1 or not layer.bias or layer.proj_size or layer.mode == "RNN_RELU":
        return f"{name} is not one layer of LSTM, GRU or tanh cells with biases"
    return None
