"""Recurrent stacks whose single step and whole sequence are the same function of the same weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard import tree
from regard.layers.cells import autograd, elementary, exported
from regard.layers.cells.cell import CELLS, Cell, Parameters, State, ineligible_layer, parameters
from regard.layers.dropout import Dropout, Where, drop
from regard.layers.eligibility import drops, overridden
from regard.layers.packing import Packing
from regard.ops import over_steps
from regard.ops.cells import shared
from regard.ops.choose import Implementation, choose
from regard.ops.over_steps import Loop
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
        cell: lstm, gru, rnn, or gru_reset_before, whose reset gate multiplies the state before the product.
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
        """Input weights Glorot-uniform, recurrent weights orthogonal a gate, biases zero, forget bias one.

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
        return self.through(self._step, self.layers, inputs, state)

    def _step(self, layer: Any, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One step of a layer: by torch's cell where weights say all, else the layer is called with one step."""
        weights = over_steps.once(_weights, layer)
        if weights is None:
            _, after = self._call(layer, x[:, None], state)
        else:
            step = partial(elementary.step, self.cell) if elementary.wanted() else CELLS[self.cell].step
            after = shared.step(self.cell, x, state, weights) or step(x, state, weights)
        return after[0], after

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
        packing = Packing.of(batch, source, mask) if _refuse_compiled(self, inputs) is None else None
        mask = None if packing is not None and packing.is_full else mask
        outputs, final = choose(PATHS, self, inputs, packing, mask).function(self, inputs, state, packing, mask)
        return outputs, final

    def _take_steps(self, inputs: Tensor, state: CellState | None, mask: Tensor | None) -> tuple[Tensor, CellState]:
        """A loop of `step`; rows without a position keep their state."""
        return take_steps(self.step, _cleared(inputs, mask), state or self.zero_state(len(inputs), inputs), mask)

    def through(
        self,
        run: Callable[[Any, Any, Any], tuple[Any, State]],
        layers: Iterable[Any],
        inputs: Tensor,
        state: CellState | None,
        where: Where | None = None,
    ) -> tuple[Tensor, CellState]:
        """Every layer by `run(layer, x, first state)`, with dropout and residuals between them.

        Args:
            layers: this stack's, in the form that `run` takes.
            inputs: of one step, of a sequence, or of some positions of sequences, which `where` tells.
            state: the first state; `run` gets None for each layer if None.

        Returns:
            the last layer's outputs and the final state.
        """
        finals = []
        for index, layer in enumerate(layers):
            outputs, last = run(layer, inputs, None if state is None else state[index])
            finals.append(last)
            if index < self.num_layers - 1:
                outputs = drop(self.dropout, outputs, layer=index, where=where)
            inputs = outputs + inputs if self.residual and index > 0 else outputs
        return inputs, tuple(finals)

    def _run_in_torch(self, inputs: Tensor, state: CellState | None, mask: Tensor | None) -> tuple[Tensor, CellState]:
        """torch's own loop, over packed rows if there is padding."""
        if mask is None:
            return self.through(self._call, self.layers, inputs, state)
        lengths = mask.sum(1)
        inputs = _cleared(inputs, mask)  # of a row without positions one is read
        packed = pack_padded_sequence(inputs, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)

        def run(layer: Any, x: Tensor, first: State | None) -> tuple[Tensor, State]:
            outputs, last = self._call(layer, packed._replace(data=x), first)
            return outputs.data, last

        where = _where(packed) if drops(self.dropout) else None
        data, final = self.through(run, self.layers, packed.data, state, where)
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


def take_steps(
    step: Callable[[Tensor, CellState], tuple[Tensor, CellState]],
    inputs: Float[Tensor, "B T F"],
    state: CellState,
    mask: Bool[Tensor, "B T"] | None,
) -> tuple[Float[Tensor, "B T D"], CellState]:
    """The outputs of T ≥ 1 steps, zero where the mask is False, and the state, which such rows keep."""
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


def _weights(layer: Any) -> Parameters | None:
    """Those of a layer of one direction, where they say all that it does."""
    return None if ineligible_layer(layer) is not None else parameters(layer)[0]


def _cleared(inputs: Tensor, mask: Tensor | None) -> Tensor:
    """The inputs, 0 at padding."""
    return inputs if mask is None else inputs.masked_fill(~mask[..., None], 0)


def _where(packed: PackedSequence) -> Where:
    """Rows and positions (N,) of what is packed."""
    counts, order = packed.batch_sizes, packed.sorted_indices
    device = packed.data.device
    positions = torch.arange(len(counts)).repeat_interleave(counts)
    rows = torch.arange(len(positions)) - (counts.cumsum(0) - counts)[positions]
    return (rows if order is None else order[rows.to(device)]).to(device), positions.to(device)


def _own_step(stack: RecurrentStack) -> str | None:
    """The method by which a subclass or the instance takes other steps, or None."""
    return None if stack.bidirectional else overridden(stack, RecurrentStack, "step", "_step")


def _refuse_steps(stack: RecurrentStack, *_: Any) -> str | None:
    return "its steps are those of its layers" if _own_step(stack) is None else None


def _refuse_elementary(stack: RecurrentStack, *_: Any) -> str | None:
    if not elementary.wanted():
        return "no transform of functions looks"
    return next((reason for layer in stack.layers if (reason := ineligible_layer(layer)) is not None), None)


def _refuse_compiled(stack: RecurrentStack, x: Tensor, packing: Packing | None = None, *_: Any) -> str | None:
    """Without a packing, why the compiled loops cannot take the inputs; with one, also why torch's loop is as fast."""
    return next((reason for layer in stack.layers if (reason := autograd.refuse(layer, x, packing)) is not None), None)


def _refuse_exported(
    stack: RecurrentStack, x: Tensor, packing: Packing | None = None, mask: Tensor | None = None
) -> str | None:
    if torch.compiler.is_exporting() and (mask is not None or not isinstance(x.shape[1], int)):
        return None
    return "no program for any lengths is exported"


PATHS = (
    Implementation(
        "steps of its own", lambda stack, x, state, packing, mask: stack._take_steps(x, state, mask), _refuse_steps
    ),
    Implementation(
        "elementary operations",
        lambda stack, x, state, packing, mask: stack.through(
            partial(elementary.run, stack.cell, mask=mask), stack.layers, x, state or stack.zero_state(len(x), x)
        ),
        _refuse_elementary,
    ),
    Implementation(
        "compiled loops, padding left out",
        lambda stack, x, state, packing, mask: stack.through(
            partial(autograd.run, stack.cell, packing=packing), stack.layers, x, state
        ),
        _refuse_compiled,
    ),
    Implementation(
        "torch's scan",
        lambda stack, x, state, packing, mask: stack.through(
            partial(exported.run, stack.cell, mask=mask), stack.layers, _cleared(x, mask), state
        ),
        _refuse_exported,
    ),
    Implementation("torch's own loop", lambda stack, x, state, packing, mask: stack._run_in_torch(x, state, mask)),
)
"""From a stack, inputs, first state, packing (if compiled loops can take the inputs) and mask:
the results of `forward`. It takes from this table and `explain` shows it, by the names."""
