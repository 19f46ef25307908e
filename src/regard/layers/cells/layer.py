"""Layers of recurrent cells: torch's layers, with single steps and padding."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers.cells import elementary, packed, padded
from regard.layers.cells.cell import CELLS, Cell, Parameters, State
from regard.layers.cells.reset_before import ResetBeforeGRU
from regard.layers.packing import RightPadding
from regard.ops import cells as shared
from regard.shapes import Float

_NAMES = tuple(
    tuple(f"{kind}_l0{suffix}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    for suffix in ("", "_reverse")
)


class AbstractRecurrentLayer(nn.Module):
    """A layer of cells in one direction or two, with the weights of torch's layer by the same names.

    It can be called like torch's layer, batch first, and also with one step or with a sequence and its padding; states
    are then (h,) or, of an LSTM, (h, c), each (B, D), or (B, 2·D) with the directions concatenated.

    torch's quantisation replaces layers of exactly its own types: change the layer's class first, as described at
    `layers.Linear`.

    Args:
        input_size: F.
        size: D, the state size of one direction.
        bidirectional: outputs have 2·D features.
    """

    cell: ClassVar[Cell]
    bidirectional: bool

    def __init__(self, input_size: int, size: int, *, bidirectional: bool = False) -> None:
        options: dict[str, Any] = {"batch_first": True, "bidirectional": bidirectional}
        super().__init__(input_size, size, **options)

    def forward(self, inputs: Any, state: Any = None, padding: RightPadding | None = None) -> tuple[Any, Any]:
        """Outputs and the last state.

        Args:
            inputs: a sequence (B, S, F), or a step (R, F) whose output is (R, D).
            state: the first state; zeros if None, which a step does not accept.
            padding: of the sequence, where outputs are zero; None for the interface of torch's layer.
        """
        if padding is not None:
            return self._padded(inputs, state, padding)
        if not isinstance(inputs, Tensor) or inputs.dim() != 2:
            return self._forward_in_torch(inputs, state)
        weights, *_ = self.directions()
        after = shared.step(self.cell, inputs, state, weights)
        if after is None and elementary.is_transformed():
            after = elementary.step(self.cell, inputs, state, weights)
        after = after or CELLS[self.cell].step(inputs, state, weights)
        return after[0], after

    def directions(self) -> list[Parameters]:
        """w_ih, w_hh, b_ih and b_hh of each direction."""
        weights: Any = [tuple(getattr(self, name) for name in names) for names in _NAMES[: 1 + self.bidirectional]]
        return weights

    def _padded(self, x: Float[Tensor, "B S F"], first: State | None, padding: RightPadding) -> tuple[Tensor, State]:
        directions, mask = self.directions(), padding.mask
        if elementary.is_transformed():
            return elementary.run(self.cell, directions, padding.cleared(x), first, mask)
        if packed.unsupported_reason(self.cell, directions, x) is None:
            packing = padding.packing
            if not packed.is_fast_in_torch(self.cell, directions, x, packing):
                return packed.run(self.cell, directions, x, first, packing)
            # there is no padding, and torch's loop is fast
            padding, mask = RightPadding(padding.batch, padding.source), None
        if torch.compiler.is_exporting() and (mask is not None or not isinstance(x.shape[1], int)):
            return elementary.scan_steps(self.cell, directions, padding.cleared(x), first, mask)
        if padded.unsupported_reason(self.cell, x, first) is None:
            return padded.run(self.cell, directions, padding.cleared(x), first, mask)
        return run_in_torch(self._forward_in_torch, self.cell, x, first, padding)

    def _forward_in_torch(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """torch's forward, in which training mode changes nothing, as a layer has no dropout of its own.

        cuDNN has gradients in training mode only. In evaluation mode, as for saliency, they are those of a shallow copy
        of the layer in training mode.
        """
        layer = self
        if torch.is_grad_enabled() and not (self.training or torch.compiler.is_compiling()):
            layer = object.__new__(type(self))
            layer.__dict__.update(self.__dict__, training=True)
        return super(AbstractRecurrentLayer, layer).forward(inputs, state)


class LSTM(AbstractRecurrentLayer, nn.LSTM):
    """`nn.LSTM` of one layer."""

    cell = "lstm"


class GRU(AbstractRecurrentLayer, nn.GRU):
    """`nn.GRU` of one layer."""

    cell = "gru"


class RNN(AbstractRecurrentLayer, nn.RNN):
    """`nn.RNN` of one layer, with tanh."""

    cell = "rnn"


class ResetBeforeLayer(AbstractRecurrentLayer, ResetBeforeGRU):
    """A `ResetBeforeGRU`."""

    cell = "gru_reset_before"

    def directions(self) -> list[Parameters]:
        """w_ih, w_hh, b_ih and zeros as b_hh of each direction."""
        kinds = "weight_ih", "weight_hh", "bias"
        weights: Any = [[getattr(self, f"{kind}_l0{suffix}") for kind in kinds] for suffix in self.suffixes]
        return [(*each, torch.zeros_like(each[2])) for each in weights]


LAYERS: dict[Cell, type[AbstractRecurrentLayer]] = {layer.cell: layer for layer in (LSTM, GRU, RNN, ResetBeforeLayer)}


def call(layer: Any, cell: Cell, x: Tensor, state: State | None, padding: RightPadding | None) -> tuple[Tensor, State]:
    """The outputs and last state of a layer, or of a user's module in its place with the interface of torch's layer.

    Args:
        x: a step (R, F) without padding; a sequence (B, S, F) with it.
    """
    if isinstance(layer, AbstractRecurrentLayer):
        return layer(x, state, padding)
    if padding is not None:
        return run_in_torch(layer, cell, x, state, padding)
    outputs, after = run_in_torch(layer, cell, x[:, None], state, RightPadding(len(x), 1))
    return outputs[:, 0], after


def run_in_torch(layer: Any, cell: Cell, x: Tensor, first: State | None, padding: RightPadding) -> tuple[Tensor, State]:
    """A sequence by a module with the interface of torch's layers, over packed rows if there is padding."""
    hx: Any = None if first is None else tuple(part[None].contiguous() for part in first)
    hx = hx if cell == "lstm" or hx is None else hx[0]
    if (mask := padding.mask) is None:
        outputs, last = layer(x, hx)
    else:
        cleared, lengths = padding.cleared(x), padding.lengths.clamp(min=1)  # torch accepts no empty rows
        rows = pack_padded_sequence(cleared, lengths, batch_first=True, enforce_sorted=False)
        outputs, last = layer(rows, hx)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
    final = tuple(part.transpose(0, 1).flatten(1) for part in (last if cell == "lstm" else (last,)))
    if mask is None:
        return outputs, final
    is_real = mask.any(1, keepdim=True)
    before = first if first is not None else tuple(map(torch.zeros_like, final))
    final = tuple(torch.where(is_real, a, b) for a, b in zip(final, before, strict=True))
    return outputs.masked_fill(~mask[..., None], 0), final
