"""What a fused pass is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from regard.layers.cells.cell import CELLS, Parameters, State
from regard.models.fused.located import Located


@dataclass(frozen=True)
class Way:
    """How a decoder's step goes.

    Args:
        attends_first: the order attend_then_recur.
        fed: where the cell comes first, what of a step is fed to the next one: the attention layer's output, the
            context, or another readout; None: nothing, or attention comes first.
        layer: what the attention layer is, tanh or linear; None: there is none.
    """

    attends_first: bool = False
    fed: Literal["layer", "context", "readout"] | None = "layer"
    layer: str | None = "tanh"


@dataclass(frozen=True)
class Plan:
    """What is fixed: the types of the parts and their numbers.

    Args:
        cell: lstm or gru.
        num_layers: L.
        residual: as in `RecurrentStack`.
        attends_first: the order attend_then_recur; else the attentional output or the context is fed back.
        energies: additive, dot or rectified.
        num_heads: H.
        sharpening: factor on the energies.
        located: of energies that also depend on earlier weights.
        num_gates: of the context, whose equal parts they multiply; 0 without.
        reads_out: whether the pass computes the readout, or leaves it to the caller, where no step needs it.
        tanh: whether the readout ends with it.
    """

    cell: str
    num_layers: int
    residual: bool
    attends_first: bool
    energies: str
    num_heads: int
    sharpening: float
    located: Located | None = None
    num_gates: int = 0
    reads_out: bool = True
    tanh: bool = True

    @property
    def num_tensors(self) -> int:
        """Tensors in a layer's state."""
        return CELLS[self.cell].num_tensors

    def divide(self, flat: Sequence[Any], num_masks: int) -> tuple[list[State], Sequence[Tensor], Weights]:
        """First states, masks of dropout and weights, of tensors that stand in this order."""
        n, num_states = self.num_tensors, self.num_tensors * self.num_layers
        first = [tuple(flat[i : i + n]) for i in range(0, num_states, n)]
        return first, flat[num_states : num_states + num_masks], Weights.of(flat[num_states + num_masks :])


@dataclass(frozen=True)
class Weights:
    """The parameters; gradients have the same form.

    Args:
        layers: (w_ih, w_hh, b_ih, b_hh) a layer; the columns of the first w_ih meet the input, then what is fed back.
        query: W and b of the query's projection, or None.
        v: (H, D) of additive energies, or None.
        readout: W and b, or None; columns meet the cell, the input if it attends first, and the context.
        located: the filters over earlier weights and their projection, or None.
        gate: W and b of β = σ(W s + b), which multiplies the context, or None.
    """

    layers: tuple[Parameters, ...]
    query: tuple[Tensor | None, Tensor | None]
    v: Tensor | None
    readout: tuple[Tensor | None, Tensor | None]
    located: tuple[Tensor | None, Tensor | None] = (None, None)
    gate: tuple[Tensor | None, Tensor | None] = (None, None)

    def flat(self) -> list[Tensor | None]:
        """One after the other."""
        layers = (weight for layer in self.layers for weight in layer)
        return [*layers, *self.query, self.v, *self.readout, *self.located, *self.gate]

    @classmethod
    def of(cls, flat: Sequence[Any]) -> Weights:
        """From `flat`."""
        layers, rest = flat[:-9], flat[-9:]
        quadruples = tuple(tuple(layers[i : i + 4]) for i in range(0, len(layers), 4))
        query, readout, located, gate = ((rest[i], rest[i + 1]) for i in (0, 3, 5, 7))
        return cls(quadruples, query, rest[2], readout, located, gate)
