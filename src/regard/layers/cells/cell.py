"""The equations of recurrent cells: states, weights and steps.

    LSTM:  c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')
    GRU:   n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h
    RNN:   h' = tanh(x + s)
    GRU with the reset gate before the product:  n = tanh(x_n + U_n (σ(r) h)), the rest as a GRU's

with the gates x = W_ih x_t + b_ih of the input and s = W_hh h + b_hh of the state. An LSTM's gates are
i, f, g, o = x + s, a GRU's r = x_r + s_r and z = x_z + s_z, in torch's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard.layers.cells.reset_before import reset_before
from regard.ops.cells import gru_update, lstm_update
from regard.shapes import Float

Cell = Literal["lstm", "gru", "rnn", "gru_reset_before"]
State = tuple[Tensor, ...]
"""The state of a layer: (h,) or, of an LSTM, (h, c), each (R, D)."""
Parameters = tuple[Tensor, Tensor, Tensor, Tensor]
"""w_ih, w_hh, b_ih, b_hh of a layer in one direction, in torch's layout."""


@dataclass(frozen=True, slots=True)
class CellKind:
    """The functions of a kind of cell.

    Args:
        num_tensors: the tensors of a state.
        step: the new state by torch's own operation, from the input (R, F), the state and the weights.
        advance: the new state in elementary operations, from the gates x (R, G), the state, w_hh and b_hh.
    """

    num_tensors: int
    step: Callable[[Tensor, State, Parameters], State]
    advance: Callable[[Tensor, State, Tensor, Tensor], State]


CELLS: dict[str, CellKind] = {
    "lstm": CellKind(
        2,
        lambda x, state, weights: torch.lstm_cell(x, state, *weights),
        lambda x, state, w_hh, b_hh: lstm_update(x, linear(state[0], w_hh, b_hh), state[1]),
    ),
    "gru": CellKind(
        1,
        lambda x, state, weights: (torch.gru_cell(x, state[0], *weights),),
        lambda x, state, w_hh, b_hh: (gru_update(x, linear(state[0], w_hh, b_hh), state[0]),),
    ),
    "rnn": CellKind(
        1,
        lambda x, state, weights: (torch.rnn_tanh_cell(x, state[0], *weights),),
        lambda x, state, w_hh, b_hh: ((x + linear(state[0], w_hh, b_hh)).tanh(),),
    ),
    "gru_reset_before": CellKind(
        1,
        lambda x, state, weights: (reset_before(linear(x, weights[0], weights[2] + weights[3]), state[0], weights[1]),),
        lambda x, state, w_hh, b_hh: (reset_before(x + b_hh, state[0], w_hh),),
    ),
}


def zeros(cell: str, x: Float[Tensor, "B ..."], size: int) -> State:
    """A state of zeros, (B, D) each, without shared tensors: torch's scan would merge them."""
    return tuple(x.new_zeros(x.shape[0], size) for _ in range(CELLS[cell].num_tensors))
