"""The base of the cells of TensorFlow 1 (`tf.nn.rnn_cell`) and of Keras.

Weights have torch's layout: (gates · D, F) and (gates · D, D), transposed kernels, with gates in torch's order.
`from_tensorflow` converts an original's weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import UnsupportedError
from regard.interop.tfa.cells.contract import DeferredCell
from regard.interop.tfa.layers.deferred import check_type, deferred, materialize, target
from regard.interop.tfa.layers.functions import Activation, Initialiser, activation_of, fill
from regard.interop.tfa.layers.originals import FromTensorflow, Shape
from regard.shapes import Float


class AbstractGatedCell(FromTensorflow, DeferredCell):
    """A cell with weights `weight_ih` (gates · D, F), `weight_hh` (gates · D, D) and `bias` (gates · D)."""

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias: nn.Parameter

    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(units, **options)
        for weight in ("weight_ih", "weight_hh", "bias"):
            self._defer(weight)

    def _defer(self, weight: str) -> None:
        self.register_parameter(weight, deferred(f"The {weight} of {type(self).__name__}", self.dtype))

    def build(self, input_size: int, *, like: Tensor | None = None) -> None:
        """Makes the weights for this number of inputs, unless they have been made.

        Args:
            like: a tensor with the device and type of the weights.
        """
        if self.built:
            return
        rows, place = self.num_gates * self.units, target(self, self.dtype, like)
        materialize(self.weight_ih, rows, input_size)
        materialize(self.weight_hh, rows, self.units)
        materialize(self.bias, rows)
        self.input_size = input_size
        with torch.inference_mode(False), torch.no_grad():
            nn.init.zeros_(self.bias)
            self.reset_parameters()
        self.to(**place)

    def _check(self, inputs: Float[Tensor, "R F"], *state: Any) -> None:
        """As in the base; also refuses inputs and states of another type than the weights."""
        super()._check(inputs, *state)
        weight = self.weights[0]
        for name, values in (("inputs", inputs), *(("The state", part) for part in state)):
            check_type(name, values, weight)

    def array_names(self) -> list[str]:
        return list(self.array_shapes())

    def array_shapes(self) -> dict[str, Shape]:
        """The arrays of the original and their shapes, in the order of its `get_weights()`."""
        raise NotImplementedError

    def widths(self, *, joint: bool = False) -> Any:
        """F and D, or with `joint` F + D and D; F is a letter before it is known."""
        if self.input_size is None:
            return "F + D" if joint else "F", self.units
        return self.input_size + joint * self.units, self.units

    def reset_parameters(self) -> None:
        """The initial weights."""
        raise NotImplementedError

    @property
    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """`weight_ih`, `weight_hh` and `bias`."""
        return self.weight_ih, self.weight_hh, self.bias


def fill_jointly(cell: AbstractGatedCell, rows: slice, wanted: Initialiser) -> None:
    """Initialises the weights of gates as one kernel over inputs and state, as in TensorFlow 1."""
    weight_ih, weight_hh, _ = cell.weights
    joint = torch.cat([weight_ih[rows], weight_hh[rows]], 1)
    fill(joint, wanted)
    weight_ih[rows], weight_hh[rows] = joint.split([weight_ih.shape[1], cell.units], 1)


def unless_tanh(activation: str | Activation | None) -> Activation | None:
    """The activation of a cell; None for tanh, which has fused steps."""
    if activation is None or activation in ("tanh", torch.tanh):
        return None
    return activation_of(activation) or (lambda x: x)


def check_keras(recurrent_activation: str, use_bias: bool, dropout: float, recurrent_dropout: float) -> None:
    """Refuses options of Keras' cells that are not supported."""
    if recurrent_activation != "sigmoid":
        raise UnsupportedError(
            f"recurrent_activation={recurrent_activation!r} is not supported: gates have a sigmoid; leave it out."
        )
    if not use_bias:
        raise UnsupportedError("use_bias=False is not supported: leave it out and set the bias to zeros.")
    for name, value in (("dropout", dropout), ("recurrent_dropout", recurrent_dropout)):
        if value:
            raise UnsupportedError(f"{name}={value}: wrap the cell in a DropoutWrapper instead.")
