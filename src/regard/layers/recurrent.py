"""Recurrent stacks whose single step and whole sequence are the same function of the same weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard import tree
from regard.layers.cells import autograd, elementary, exported
from regard.layers.cells.cell import CELLS, Cell, State, ineligible_layer, parameters
from regard.layers.dropout import Dropout, drop
from regard.layers.eligibility import drops, overridden
from regard.layers.packing import Packing
from regard.ops.eligibility import EXAMPLE_ROWS, StandIn
from regard.shapes import Bool, Float, keep_right_padding

CellState = tuple[State, ...]
"""A layer each: (h,) or, for an LSTM, (h, c); every tensor has R rows."""


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
            CELLS[cell].layer(width, size, batch_first=True, bidirectional=bidirectional) for width in widths
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
        return CELLS[self.cell].num_tensors

    def zero_state(self, num_rows: int, like: Tensor) -> CellState:
        """A state of zeros, R rows, with the type and device of `like`."""
        zeros = like.new_zeros(num_rows, self.output_size)
        return ((zeros,) * self.num_tensors,) * self.num_layers

    def step(self, inputs: Float[Tensor, "R F"], state: CellState) -> tuple[Float[Tensor, "R D"], CellState]:
        """One step of every layer."""
        after: list[State] = []
        for index, layer in enumerate(self.layers):
            after.append(self._step(layer, inputs, state[index]))
            inputs = self._between(index, inputs, after[-1][0])
        return inputs, tuple(after)

    def _step(self, layer: Any, x: Tensor, state: State) -> State:
        """One step of a layer: by torch's cell where weights say all, else the layer is called with one step."""
        if ineligible_layer(layer) is not None:
            _, last = self._call(layer, x[:, None], state)
            return last
        step = partial(elementary.step, self.cell) if elementary.wanted() else CELLS[self.cell].step
        return step(x, state, *parameters(layer))

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
        if elementary.wanted() and not any(map(ineligible_layer, self.layers)):
            first = state or self.zero_state(batch, inputs)
            return self._through(partial(elementary.run, self.cell, mask=mask), inputs, first)
        if all(autograd.refuse(layer, inputs) is None for layer in self.layers):
            packing = Packing.of(batch, source, mask)
            if all(autograd.refuse(layer, inputs, packing) is None for layer in self.layers):
                return self._through(partial(autograd.run, self.cell, packing=packing), inputs, state)
            mask = None if packing.is_full else mask
        if mask is not None:
            inputs = inputs.masked_fill(~mask[..., None], 0)  # of a row without positions one would be read
        if torch.compiler.is_exporting() and (mask is not None or not isinstance(source, int)):
            return self._through(partial(exported.run, self.cell, mask=mask), inputs, state)
        if mask is None:
            return self._through(self._call, inputs, state)
        return self._run_packed(inputs, state, mask)

    def explain(self, *, rows: int = EXAMPLE_ROWS, device: str | None = None) -> str:
        """Which path `forward` takes and why, with gradients if torch's mode records them.

        Args:
            rows: B.
            device: the type of device, cpu or cuda; the weights' if None.
        """
        if not self.bidirectional and (name := overridden(self, RecurrentStack, "step", "_step")) is not None:
            return f"sequences are taken step by step: {type(self).__name__} has a {name} of its own"
        weight, size = next(self.parameters()), self.layers[0].input_size
        kind = torch.device(device or weight.device.type)
        x: Any = StandIn(kind, (rows, 1, size), weight.dtype, requires_grad=torch.is_grad_enabled())
        ineligible, full = (
            next((reason for layer in self.layers if (reason := autograd.refuse(layer, x, packing)) is not None), None)
            for packing in (None, Packing.of(rows, 1))
        )
        if ineligible is not None or (full is not None and rows == 1):
            return f"sequences run through torch's own loop: {ineligible or full}"
        equal = "" if full is None else f"; those of one length through torch's own loop: {full}"
        return f"sequences run through compiled loops, padding left out{equal}"

    def _take_steps(self, inputs: Tensor, state: CellState, mask: Tensor | None) -> tuple[Tensor, CellState]:
        """A loop of `step`; rows without a position keep their state."""
        if mask is not None:
            inputs = inputs.masked_fill(~mask[..., None], 0)
        outputs = []
        for t in range(inputs.shape[1]):
            output, after = self.step(inputs[:, t], state)
            if mask is None:
                state = after
            else:
                real = mask[:, t, None]
                output = output.masked_fill(~real, 0)
                state = tree.map(lambda a, b, real=real: torch.where(real, a, b), after, state)
            outputs.append(output)
        return torch.stack(outputs, 1), state

    def _through(
        self,
        run: Callable[[Any, Tensor, Any], tuple[Tensor, State]],
        inputs: Tensor,
        state: CellState | None,
        **where: Any,
    ) -> tuple[Tensor, CellState]:
        """Every layer by `run(layer, x, first state)`, with dropout and residuals between them."""
        finals = []
        for index, layer in enumerate(self.layers):
            outputs, last = run(layer, inputs, None if state is None else state[index])
            finals.append(last)
            inputs = self._between(index, inputs, outputs, **where)
        return inputs, tuple(finals)

    def _run_packed(self, inputs: Tensor, state: CellState | None, mask: Tensor) -> tuple[Tensor, CellState]:
        """torch's own loop over packed rows."""
        lengths = mask.sum(1)
        packed = pack_padded_sequence(inputs, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)

        def run(layer: Any, x: Tensor, first: State | None) -> tuple[Tensor, State]:
            outputs, last = self._call(layer, packed._replace(data=x), first)
            return outputs.data, last

        data, final = self._through(run, packed.data, state, where=_where(packed) if drops(self.dropout) else None)
        outputs, _ = pad_packed_sequence(packed._replace(data=data), batch_first=True, total_length=inputs.shape[1])
        is_empty = (lengths == 0)[:, None]
        before = state if state is not None else tree.map(torch.zeros_like, final)
        final = tree.map(lambda a, b: torch.where(is_empty, b, a), final, before)
        return outputs.masked_fill(~mask[..., None], 0), final

    def _call(self, layer: Any, inputs: Any, state: State | None) -> tuple[Any, State]:
        """A layer of torch's over a sequence, and its final state, directions side by side."""
        first = None
        if state is not None:
            parts = tuple(part[None].contiguous() for part in state)
            first = parts if self.cell == "lstm" else parts[0]
        outputs, last = layer(inputs, first)
        last = last if self.cell == "lstm" else (last,)
        return outputs, tuple(part.transpose(0, 1).flatten(1) for part in last)

    def _between(
        self, index: int, inputs: Tensor, outputs: Tensor, where: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        if index < self.num_layers - 1:
            outputs = drop(self.dropout, outputs, layer=index, where=where)
        return outputs + inputs if self.residual and index > 0 else outputs


def _where(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """Rows and positions (N,) of what is packed."""
    counts, order = packed.batch_sizes, packed.sorted_indices
    device = packed.data.device
    positions = torch.arange(len(counts)).repeat_interleave(counts)
    rows = torch.arange(len(positions)) - (counts.cumsum(0) - counts)[positions]
    return (rows if order is None else order[rows.to(device)]).to(device), positions.to(device)
