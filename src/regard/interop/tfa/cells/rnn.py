"""The simple cell of TensorFlow 1."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard.interop.tfa.cells.gated import AbstractGatedCell, fill_jointly, unless_tanh
from regard.interop.tfa.layers.deferred import Type
from regard.interop.tfa.layers.functions import Activation
from regard.interop.tfa.layers.originals import Pool, Shape
from regard.layers.cells.cell import CELLS
from regard.shapes import Float


class BasicRNNCell(AbstractGatedCell):
    """TensorFlow 1's simple cell, h' = tanh(W x + U h + b). The state is h (R, D).

    Args:
        num_units: D.
        activation: instead of tanh, by its name in Keras or a function.
        reuse: without effect: weights belong to the object.
        name, dtype, input_size: as in `GRUCell`.
    """

    def __init__(
        self,
        num_units: int,
        activation: str | Activation | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Type = None,
        *,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, input_size=input_size, dtype=dtype, name=name)
        self.activation = unless_tanh(activation)
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        """The kernel over inputs and state Glorot-uniform, the bias zero."""
        fill_jointly(self, slice(None), "glorot_uniform")

    def forward(self, inputs: Float[Tensor, "R F"], state: Float[Tensor, "R D"]) -> tuple[Tensor, Tensor]:
        """The new h, twice."""
        self._check(inputs, state)
        weight_ih, weight_hh, bias = self.weights
        if self.activation is None:
            (new,) = CELLS["rnn"].step(inputs, (state,), (weight_ih, weight_hh, bias, torch.zeros_like(bias)))
        else:
            new = self.activation(linear(inputs, weight_ih, bias) + linear(state, weight_hh))
        return new, new

    def array_shapes(self) -> dict[str, Shape]:
        width, size = self.widths(joint=True)
        return {"kernel": (width, size), "bias": (size,)}

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        kernel, bias = arrays.pick(self.array_shapes())
        return {"weight_ih": kernel.T[:, : -self.units], "weight_hh": kernel.T[:, -self.units :], "bias": bias}
