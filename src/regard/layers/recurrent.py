"""Recurrent stacks, for single steps and whole sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard import tree
from regard.layers.cells.cell import CELLS, Cell, State
from regard.layers.cells.layer import LAYERS, call
from regard.layers.dropout import Dropout, drop
from regard.layers.module_weights import overridden
from regard.layers.packing import RightPadding
from regard.ops.over_steps import Loop
from regard.shapes import Bool, Float, keep_right_padding

CellState = tuple[State, ...]
"""The states of the layers: (h,) or, for an LSTM, (h, c); every tensor has R rows."""


class RecurrentStack(nn.Module):
    """Layers of vanilla (tanh), GRU or LSTM cells, in one direction or two.

    h^l_t = cell(x^l_t, h^l_{t-1}),  x^{l+1}_t = dropout(h^l_t) [+ x^l_t with `residual`, above the first layer].

    Weights have torch's layout (gates i, f, g, o and r, z, n), so a state dict of `nn.LSTM` fits layer by layer. The
    forget gate's bias starts at 1 (Gers 2000; Jozefowicz 2015).

    Args:
        input_size: F.
        size: D, the state size of one direction.
        num_layers: L.
        cell: lstm, gru, rnn, or gru_reset_before, whose reset gate multiplies the state before the product.
        bidirectional: outputs have 2·D features, and there is no `step`.
        dropout: between layers, in training.
        residual: layers above the first add their input to their output.
    """

    def __init__(
        self,
        input_size: int,
        size: int,
        num_layers: int = 1,
        *,
        cell: Cell = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.cell = cell
        self.size = size
        self.num_layers = num_layers
        self.bidirectional = bidirectional
        self.residual = residual
        self.output_size = size * (2 if bidirectional else 1)
        widths = [input_size] + [self.output_size] * (num_layers - 1)
        self.layers: Any = nn.ModuleList(LAYERS[cell](width, size, bidirectional=bidirectional) for width in widths)
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Input weights Glorot-uniform, recurrent weights orthogonal by gate, biases zero, forget bias one.

        The gates of gru_reset_before have biases of one, as in TensorFlow 1.
        """
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
                if self.cell == "lstm" and "bias_ih" in name:
                    nn.init.ones_(parameter[self.size : 2 * self.size])
                if self.cell == "gru_reset_before":
                    nn.init.ones_(parameter[: 2 * self.size])
            else:
                for gate in parameter.split(self.size):
                    nn.init.orthogonal_(gate) if "weight_hh" in name else nn.init.xavier_uniform_(gate)

    @property
    def num_tensors(self) -> int:
        """Tensors in a layer's state: 2 for an LSTM (h, c), else 1."""
        return CELLS[self.cell].num_tensors

    def zero_state(self, num_rows: int, like: Tensor) -> CellState:
        """A state of zeros, R rows, with the type and device of `like`."""
        zeros = like.new_zeros(num_rows, self.output_size)
        return ((zeros,) * self.num_tensors,) * self.num_layers

    def step(self, inputs: Float[Tensor, "R F"], state: CellState) -> tuple[Float[Tensor, "R D"], CellState]:
        """One step of every layer."""
        return self._run(inputs, state)

    def forward(
        self, inputs: Float[Tensor, "B S F"], state: CellState | None = None, mask: Bool[Tensor, "B S"] | None = None
    ) -> tuple[Float[Tensor, "B S D"], CellState]:
        """A whole sequence.

        Args:
            state: the first state (one direction only); zeros if None.
            mask: (B, S) bool, right-padded. Outputs at padded positions are zero, and the final state is that after
                each row's last real position (backward direction: after its first).

        Returns:
            outputs (B, S, D or 2·D) and the final state of every layer, directions concatenated.

        Raises:
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        mask = keep_right_padding(inputs, mask, name="inputs")
        batch, source = inputs.shape[:2]
        if batch == 0 or source == 0:
            return inputs.new_zeros(batch, source, self.output_size), state or self.zero_state(batch, inputs)
        padding = RightPadding(batch, source, mask)
        if not self.bidirectional and overridden(self, RecurrentStack, "step") is not None:
            first = state or self.zero_state(batch, inputs)
            return take_steps(self.step, padding.cleared(inputs), first, mask)
        return self._run(inputs, state, padding)

    def _run(
        self, inputs: Tensor, state: CellState | None, padding: RightPadding | None = None
    ) -> tuple[Tensor, CellState]:
        """Every layer over a step, or over a sequence with its padding, with dropout and residuals between them."""
        finals = []
        for index, layer in enumerate(self.layers):
            outputs, last = call(layer, self.cell, inputs, None if state is None else state[index], padding)
            finals.append(last)
            if index < self.num_layers - 1:
                outputs = drop(self.dropout, outputs, layer=index)
            inputs = outputs + inputs if self.residual and index > 0 else outputs
        return inputs, tuple(finals)


def take_steps(
    step: Callable[[Tensor, CellState], tuple[Tensor, CellState]],
    inputs: Float[Tensor, "B T F"],
    state: CellState,
    mask: Bool[Tensor, "B T"] | None,
) -> tuple[Float[Tensor, "B T D"], CellState]:
    """The outputs of T ≥ 1 steps and the final state; where the mask is False, outputs are 0 and states stay."""
    outputs = []
    with Loop():
        for t, x in enumerate(inputs.unbind(1)):
            output, after = step(x, state)
            if mask is not None:
                real = mask[:, t, None]
                output = output.masked_fill(~real, 0)
                after = tree.map(lambda new, old, real=real: torch.where(real, new, old), after, state)
            state = after
            outputs.append(output)
    return torch.stack(outputs, 1), state
