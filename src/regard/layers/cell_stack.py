"""Stacked recurrent cells with dropout or zoneout on their states, for decoders of speech."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, UnsupportedError
from regard.layers.cells.cell import CELLS, Cell
from regard.layers.dropout import Dropout, drop
from regard.layers.linear import Linear
from regard.layers.recurrent import CellState, RecurrentStack, take_steps
from regard.shapes import Bool, Float, keep_right_padding


class Zoneout(nn.Module):
    """Keeps units of the old state with probability p in training, and the expectation in evaluation.

    training: u = m ⊙ old + (1 - m) ⊙ new with m ~ Bernoulli(p);  evaluation: u = p · old + (1 - p) · new.

    A `Dropout` (`self.dropout`) draws m, by item within `layers.items.drawing`.

    Args:
        p: the probability that a unit stays, at least 0 and below 1.

    Raises:
        ConfigError: for another p.

    Source: Krueger et al. 2017 (arXiv 1606.01305).

    >>> zoneout = Zoneout(0.25).eval()
    >>> zoneout(torch.tensor([[4.0]]), torch.tensor([[0.0]]))
    tensor([[3.]])
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ConfigError(f"zoneout={p} is a probability: give a number from 0 to below 1.")
        self.p = p
        self.dropout = Dropout(p)

    def forward(self, new: Float[Tensor, "R D"], old: Float[Tensor, "R D"], *, layer: int = 0) -> Float[Tensor, "R D"]:
        """The state (R, D) after a step.

        Args:
            layer: the number of the site, if a module has several.
        """
        if self.p == 0:
            return new
        if not self.training:
            return torch.lerp(new, old.to(new.dtype), self.p)
        changes = drop(self.dropout, torch.ones_like(new, requires_grad=False), layer=layer) > 0
        return torch.where(changes, new, old.to(new.dtype))


Dropped = Literal["output", "state"]


class CellStack(nn.Module):
    """Layers of recurrent cells with dropout or zoneout on the state in every step.

    s^l_t = R(cell^l(x^l_t, s^l_{t-1}), s^l_{t-1}),  x^{l+1}_t = h^l_t [+ x^l_t with `residual`],

    where R is dropout or zoneout and h is the output in the state s = (h) or, of an LSTM, (h, c). `RecurrentStack` has
    dropout between its layers instead, and is faster over whole sequences.

    Args:
        input_size: F.
        size: D, the state size of each layer.
        num_layers: L.
        cell: as in `RecurrentStack`.
        residual: every layer adds its input to its output; the input is first mapped to D features, W x + b.
        dropout: probability that a unit is dropped in training, in the state as well.
        dropped: with dropout: of h only (`output`), or of the whole `state`, including c.
        zoneout: probability that a unit of the state (h and c) keeps its value; not with dropout.
        zones_output: whether x^{l+1} is h after zoneout; otherwise it is the cell's new h, and zoneout is only in the
            state.

    Raises:
        UnsupportedError: for dropout with zoneout.
        ConfigError: for a probability outside [0, 1).

    Source: zoneout: Krueger et al. 2017 (arXiv 1606.01305); residual cells: Wang et al. 2017, Tacotron
    (arXiv 1703.10135), section 3.3.

    >>> import torch
    >>> cells = CellStack(3, 4, 2, cell="gru", residual=True)
    >>> output, state = cells.step(torch.zeros(5, 3), cells.zero_state(5, torch.zeros(1)))
    >>> output.shape
    torch.Size([5, 4])
    """

    def __init__(
        self,
        input_size: int,
        size: int,
        num_layers: int = 1,
        *,
        cell: Cell = "lstm",
        residual: bool = False,
        dropout: float = 0.0,
        dropped: Dropped = "output",
        zoneout: float = 0.0,
        zones_output: bool = True,
    ) -> None:
        super().__init__()
        if dropout and zoneout:
            raise UnsupportedError(f"dropout={dropout} and zoneout={zoneout}: only one of them can be above 0.")
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout={dropout} is a probability: give a number from 0 to below 1.")
        if dropped not in ("output", "state"):
            raise ConfigError(f"dropped={dropped!r} must be 'output' or 'state'.")
        self.input_size = input_size
        self.size = size
        self.num_layers = num_layers
        self.cell: Cell = cell
        self.residual = residual
        self.dropped: Dropped = dropped
        self.zones_output = zones_output
        self.projection = Linear(input_size, size) if residual else None
        widths = [size if residual else input_size] + [size] * (num_layers - 1)
        self.cells: Any = nn.ModuleList(RecurrentStack(width, size, cell=cell) for width in widths)
        self.dropout = Dropout(dropout)
        self.zoneout = Zoneout(zoneout)

    @property
    def output_size(self) -> int:
        """D, the width of the outputs."""
        return self.size

    @property
    def num_tensors(self) -> int:
        """Tensors in a layer's state: 2 for an LSTM (h, c), else 1."""
        return CELLS[self.cell].num_tensors

    def zero_state(self, num_rows: int, like: Tensor) -> CellState:
        """A state of zeros, R rows, with the type and device of `like`."""
        zeros = like.new_zeros(num_rows, self.size)
        return ((zeros,) * self.num_tensors,) * self.num_layers

    def step(self, inputs: Float[Tensor, "R F"], state: CellState) -> tuple[Float[Tensor, "R D"], CellState]:
        """One step of every layer: the output of the last one, and the new states."""
        x = inputs if self.projection is None else self.projection(inputs)
        finals = []
        for index, (cells, old) in enumerate(zip(self.cells, state, strict=True)):
            output, (new,) = cells.step(x, (old,))
            if self.zoneout.p:
                new = tuple(
                    self.zoneout(*pair, layer=index * self.num_tensors + number)
                    for number, pair in enumerate(zip(new, old, strict=True))
                )
                output = new[0] if self.zones_output else output
            elif self.dropout.p:
                count = self.num_tensors if self.dropped == "state" else 1
                dropped = (
                    drop(self.dropout, part, layer=index * self.num_tensors + number)
                    for number, part in enumerate(new[:count])
                )
                new = (*dropped, *new[count:])
                output = new[0]
            finals.append(new)
            x = output + x if self.residual else output
        return x, tuple(finals)

    def forward(
        self, inputs: Float[Tensor, "B T F"], state: CellState | None = None, mask: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], CellState]:
        """A whole sequence, step by step.

        Args:
            state: the first state; zeros if None.
            mask: right-padded, True at real positions. Outputs at padding are zero, and the final state is that after
                each row's last real position.

        Raises:
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        mask = keep_right_padding(inputs, mask, name="inputs")
        state = self.zero_state(len(inputs), inputs) if state is None else state
        if not inputs.shape[1]:
            return inputs.new_zeros(*inputs.shape[:2], self.size), state
        return take_steps(self.step, inputs, state, mask)
