"""Recurrent stacks whose single step and whole sequence are the same function of the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard import tree
from regard.layers import elementary, exported, recurrence
from regard.layers.dropout import Dropout, drop
from regard.layers.eligibility import overridden
from regard.layers.packing import Packing
from regard.shapes import Bool, Float, keep_right_padding

Cell = Literal["lstm", "gru", "rnn"]
CellState = tuple[tuple[Tensor, ...], ...]
"""A layer each: (h,) or, for an LSTM, (h, c); every tensor has R rows."""

_LAYERS: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class RecurrentStack(nn.Module):
    """Layers of vanilla (tanh), GRU or LSTM cells, in one direction or two.

    h^l_t = cell(x^l_t, h^l_{t-1}),  x^{l+1}_t = dropout(h^l_t) [+ x^l_t with `residual`, above the first layer].

    Weights have torch's layout (gates i, f, g, o and r, z, n), so a state dict of `nn.LSTM` fits layer by layer. The
    forget gate's bias starts at 1 (Gers 2000; Jozefowicz 2015).

    Args:
        input_size: F.
        size: D, the state size of one direction.
        num_layers: L.
        cell: lstm, gru or rnn.
        bidirectional: outputs have 2·D features; only `forward` works then.
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
        self.layers: Any = nn.ModuleList(
            _LAYERS[cell](width, size, batch_first=True, bidirectional=bidirectional) for width in widths
        )
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Input weights Glorot-uniform, recurrent weights orthogonal a gate, biases zero, forget bias one."""
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
                if self.cell == "lstm" and "bias_ih" in name:
                    nn.init.ones_(parameter[self.size : 2 * self.size])
            else:
                for gate in parameter.split(self.size):
                    nn.init.orthogonal_(gate) if "weight_hh" in name else nn.init.xavier_uniform_(gate)

    @property
    def num_tensors(self) -> int:
        """Tensors in a layer's state: 2 for an LSTM (h, c), else 1."""
        return 2 if self.cell == "lstm" else 1

    def zero_state(self, num_rows: int, like: Tensor) -> CellState:
        """A state of zeros, R rows, with the type and device of `like`."""
        zeros = like.new_zeros(num_rows, self.output_size)
        return ((zeros,) * self.num_tensors,) * self.num_layers

    def step(self, inputs: Float[Tensor, "R F"], state: CellState) -> tuple[Float[Tensor, "R D"], CellState]:
        """One step of every layer."""
        new: list[tuple[Tensor, ...]] = []
        for index, layer in enumerate(self.layers):
            new.append(self._step(layer, inputs, state[index]))
            inputs = self._between(index, inputs, new[-1][0])
        return inputs, tuple(new)

    def _step(self, layer: Any, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """One step of a layer: by torch's cell where weights say all, else the layer is called with one step."""
        if recurrence.unreadable(layer) is not None:
            _, last = self._call(layer, x[:, None], state)
            return last
        weights = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
        if elementary.wanted():
            return elementary.step(self.cell, x, state, weights)
        if self.cell == "lstm":
            return torch.lstm_cell(x, state, *weights)
        function = torch.gru_cell if self.cell == "gru" else torch.rnn_tanh_cell
        return (function(x, state[0], *weights),)

    def forward(
        self, inputs: Float[Tensor, "B S F"], state: CellState | None = None, mask: Bool[Tensor, "B S"] | None = None
    ) -> tuple[Float[Tensor, "B S D"], CellState]:
        """A whole sequence.

        Args:
            inputs: (B, S, F).
            state: the first state (one direction only); zeros when None.
            mask: (B, S) bool, right-padded. Outputs at padded positions are zero, and the final state is that after
                each row's last real position (backward direction: after its first).

        Returns:
            outputs (B, S, D or 2·D) and the final state of every layer, directions side by side.

        Raises:
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        mask = keep_right_padding(inputs, mask, name="inputs")
        batch, source = inputs.shape[:2]
        if batch == 0 or source == 0:
            return inputs.new_zeros(batch, source, self.output_size), state or self.zero_state(batch, inputs)
        if not self.bidirectional and overridden(self, RecurrentStack, "step", "_step") is not None:
            return self._take_steps(inputs, state or self.zero_state(batch, inputs), mask)
        if elementary.wanted() and not any(map(recurrence.unreadable, self.layers)):
            return self._run_elementary(inputs, state or self.zero_state(batch, inputs), mask)
        if all(recurrence.refuse(layer, inputs) is None for layer in self.layers):
            packing = Packing.of(batch, source, mask)
            if all(recurrence.slower(layer, inputs, packing) is None for layer in self.layers):
                return self._run_layers(lambda layer, x, first: recurrence.run(layer, packing, x, first), inputs, state)
            mask = None if packing.is_full else mask
        if mask is not None:
            inputs = inputs.masked_fill(~mask[..., None], 0)  # of a row without positions one would be read
        if torch.compiler.is_exporting() and (mask is not None or not isinstance(source, int)):
            return self._run_layers(lambda layer, x, first: exported.run(layer, x, mask, first), inputs, state)
        if mask is None:
            return self._run(inputs, state)
        lengths = mask.sum(1)
        packed = pack_padded_sequence(inputs, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        outputs, final = self._run(packed, state)
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source)
        empty = (lengths == 0)[:, None]
        before = state if state is not None else tree.map(torch.zeros_like, final)
        return padded.masked_fill(~mask[..., None], 0), tree.map(lambda a, b: torch.where(empty, b, a), final, before)

    def explain(self) -> str:
        """Which way `forward` takes and why."""
        if not self.bidirectional and (name := overridden(self, RecurrentStack, "step", "_step")) is not None:
            return f"sequences are taken step by step: {type(self).__name__} has a {name} of its own"
        reasons = [reason for layer in self.layers if (reason := recurrence.refuse(layer)) is not None]
        if reasons:
            return f"sequences run through torch's own loop: {reasons[0]}"
        lstm = "; without padding by oneDNN's LSTM, which is faster" if self.cell == "lstm" else ""
        return f"sequences on the CPU run through compiled loops, padding left out{lstm}"

    def _take_steps(self, inputs: Tensor, state: CellState, mask: Tensor | None) -> tuple[Tensor, CellState]:
        """A loop of `step`; rows without a position keep their state."""
        if mask is not None:
            inputs = inputs.masked_fill(~mask[..., None], 0)
        outputs = []
        for t in range(inputs.shape[1]):
            output, new = self.step(inputs[:, t], state)
            if mask is None:
                state = new
            else:
                real = mask[:, t, None]
                output = output.masked_fill(~real, 0)
                state = tree.map(lambda a, b, real=real: torch.where(real, a, b), new, state)
            outputs.append(output)
        return torch.stack(outputs, 1), state

    def _run_elementary(self, inputs: Tensor, state: CellState, mask: Tensor | None) -> tuple[Tensor, CellState]:
        finals = []
        for index, layer in enumerate(self.layers):
            outputs, last = elementary.run(self.cell, layer, inputs, state[index], mask)
            finals.append(last)
            inputs = self._between(index, inputs, outputs)
        return inputs, tuple(finals)

    def _run_layers(self, run: Callable[..., Any], inputs: Tensor, state: CellState | None) -> tuple[Tensor, CellState]:
        finals = []
        for index, layer in enumerate(self.layers):
            outputs, last = run(layer, inputs, state[index] if state is not None else None)
            finals.append(last)
            inputs = self._between(index, inputs, outputs)
        return inputs, tuple(finals)

    def _run(self, inputs: Any, state: CellState | None) -> tuple[Any, CellState]:
        finals = []
        for index, layer in enumerate(self.layers):
            outputs, last = self._call(layer, inputs, None if state is None else state[index])
            finals.append(last)
            if isinstance(outputs, PackedSequence):
                inputs = outputs._replace(data=self._between(index, inputs.data, outputs.data, of=outputs))
            else:
                inputs = self._between(index, inputs, outputs)
        return inputs, tuple(finals)

    def _call(self, layer: Any, inputs: Any, state: tuple[Tensor, ...] | None) -> tuple[Any, tuple[Tensor, ...]]:
        """A layer of torch's over a sequence, and its final state, directions side by side."""
        first = None
        if state is not None:
            parts = tuple(part[None].contiguous() for part in state)
            first = parts if self.cell == "lstm" else parts[0]
        outputs, last = layer(inputs, first)
        last = last if self.cell == "lstm" else (last,)
        return outputs, tuple(part.transpose(0, 1).flatten(1) for part in last)

    def _between(self, index: int, inputs: Tensor, outputs: Tensor, of: PackedSequence | None = None) -> Tensor:
        if index < self.num_layers - 1:
            outputs = drop(self.dropout, outputs, layer=index, where=None if of is None else _where(of))
        return outputs + inputs if self.residual and index > 0 else outputs


def _where(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """Rows and positions (N,) of what is packed."""
    counts, order = packed.batch_sizes, packed.sorted_indices
    device = packed.data.device
    positions = torch.arange(len(counts)).repeat_interleave(counts)
    places = torch.arange(len(positions)) - (counts.cumsum(0) - counts)[positions]
    return (places if order is None else order[places.to(device)]).to(device), positions.to(device)
