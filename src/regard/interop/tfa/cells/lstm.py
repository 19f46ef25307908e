"""Long short-term memory: TensorFlow 1's and Keras'."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard.attention.contract import Tree
from regard.errors import ShapeError, UnsupportedError
from regard.interop.tfa.cells.contract import LSTMStateTuple, check_order
from regard.interop.tfa.cells.gated import AbstractGatedCell, check_keras, fill_jointly, unless_tanh
from regard.interop.tfa.layers.deferred import Type
from regard.interop.tfa.layers.functions import Activation, Initialiser, fill
from regard.interop.tfa.layers.originals import Pool, Shape
from regard.layers.cells.cell import CELLS
from regard.shapes import Float


class AbstractLSTMCell(AbstractGatedCell):
    """c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c'), with gates in the order i, f, g, o and one bias."""

    num_gates = 4

    def _step(self, inputs: Tensor, h: Tensor, c: Tensor, activation: Activation | None) -> tuple[Tensor, Tensor]:
        """The new h and c."""
        self._check(inputs, h, c)
        weight_ih, weight_hh, bias = self.weights
        if activation is None:
            h, c = CELLS["lstm"].step(inputs, (h, c), (weight_ih, weight_hh, bias, torch.zeros_like(bias)))
            return h, c
        i, f, g, o = (linear(inputs, weight_ih, bias) + linear(h, weight_hh)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * activation(g)
        return o.sigmoid() * activation(c), c

    def _pair(self, state: Any) -> Any:
        """The two tensors of a state.

        Raises:
            ShapeError: for anything but two tensors, also for a tensor of two rows, or for a pair in another order.
        """
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            kind = f"{type(state).__name__} of {len(state)}" if hasattr(state, "__len__") else type(state).__name__
            raise ShapeError(f"The state of an LSTM is a pair of tensors (R, D); got {kind}. Begin with zero_state.")
        check_order(self.state_size, state, f"The state of {type(self).__name__}")
        return state

    @property
    def state_size(self) -> Any:
        return (self.units, self.units)


class LSTMCell(AbstractLSTMCell):
    """TensorFlow 1's LSTM. The state is an `LSTMStateTuple` (c, h).

    Args:
        num_units: D.
        use_peepholes, num_proj, cell_clip, proj_clip: not supported.
        initializer: of the kernel over inputs and state; Glorot-uniform if None.
        num_unit_shards, num_proj_shards, reuse: without effect.
        forget_bias: the initial bias of the forget gate. The original equivalently adds this number in every step;
            `from_tensorflow` adds it to the original's bias.
        state_is_tuple: only True.
        activation: instead of tanh, by its name in Keras or a function.
        name, dtype, input_size: as in `GRUCell`.

    Source: Hochreiter & Schmidhuber 1997; `tf.nn.rnn_cell.LSTMCell`.

    >>> cell = LSTMCell(4)
    >>> output, state = cell(torch.zeros(2, 3), cell.zero_state(2, "float32"))
    >>> state.h.shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Initialiser | None = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: str | Activation | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Type = None,
        *,
        input_size: int | None = None,
    ) -> None:
        refused = {"use_peepholes": use_peepholes, "num_proj": num_proj, "cell_clip": cell_clip, "proj_clip": proj_clip}
        for option, value in refused.items():
            if value:
                raise UnsupportedError(f"{option}={value} is not supported; leave it out.")
        _check_tuple(state_is_tuple)
        super().__init__(num_units, input_size=input_size, dtype=dtype, name=name)
        self.initializer, self.forget_bias = initializer, forget_bias
        self.activation = unless_tanh(activation)
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        """The kernel over inputs and state by `initializer`, the forget gate's bias `forget_bias`, the others zero."""
        fill_jointly(self, slice(None), self.initializer or "glorot_uniform")
        self.weights[2][self.units : 2 * self.units] = self.forget_bias

    @property
    def state_size(self) -> Any:
        """(D, D), as an `LSTMStateTuple`."""
        return LSTMStateTuple(self.units, self.units)

    def forward(self, inputs: Float[Tensor, "R F"], state: Tree) -> tuple[Tensor, LSTMStateTuple]:
        c, h = self._pair(state)
        h, c = self._step(inputs, h, c, self.activation)
        return h, LSTMStateTuple(c, h)

    def array_shapes(self) -> dict[str, Shape]:
        width, size = self.widths(joint=True)
        return {"kernel": (width, 4 * size), "bias": (4 * size,)}

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        """From kernel and bias, whose gates are i, g, f, o."""
        kernel, bias = arrays.pick(self.array_shapes())
        i, g, f, o = torch.cat([kernel, bias[None]]).T.chunk(4)
        f = torch.cat([f[:, :-1], f[:, -1:] + self.forget_bias], 1)
        joint = torch.cat([i, f, g, o])
        size = self.units
        return {"weight_ih": joint[:, : -size - 1], "weight_hh": joint[:, -size - 1 : -1], "bias": joint[:, -1]}


class BasicLSTMCell(LSTMCell):
    """TensorFlow 1's LSTM by its older name and order of arguments: an `LSTMCell` with fewer options.

    Args:
        num_units, forget_bias, state_is_tuple, activation, reuse, name, dtype, input_size: as in `LSTMCell`.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: str | Activation | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Type = None,
        *,
        input_size: int | None = None,
    ) -> None:
        super().__init__(
            num_units,
            forget_bias=forget_bias,
            state_is_tuple=state_is_tuple,
            activation=activation,
            name=name,
            dtype=dtype,
            input_size=input_size,
        )


class KerasLSTMCell(AbstractLSTMCell):
    """`tf.keras.layers.LSTMCell`. The state is (h, c), Keras' order, or a list [h, c].

    Args:
        units: D.
        activation: instead of tanh, by its name or a function; the identity if None.
        recurrent_activation: of the gates: only "sigmoid".
        use_bias: only True.
        kernel_initializer, recurrent_initializer, bias_initializer: of the weights of inputs, of those of the state,
            and of the bias.
        unit_forget_bias: whether the forget gate's bias starts from 1 regardless of `bias_initializer`.
        dropout, recurrent_dropout: only 0; wrap the cell in a `DropoutWrapper`.
        dtype, name, input_size: as in `GRUCell`.
    """

    def __init__(
        self,
        units: int,
        activation: str | Activation | None = "tanh",
        recurrent_activation: str = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initialiser = "glorot_uniform",
        recurrent_initializer: Initialiser = "orthogonal",
        bias_initializer: Initialiser = "zeros",
        unit_forget_bias: bool = True,
        *,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        dtype: Type = None,
        name: str | None = None,
        input_size: int | None = None,
    ) -> None:
        super().__init__(units, input_size=input_size, dtype=dtype, name=name)
        check_keras(recurrent_activation, use_bias, dropout, recurrent_dropout)
        self.activation, self.unit_forget_bias = unless_tanh(activation or "linear"), unit_forget_bias
        self.bias_initializer = bias_initializer
        self.kernel_initializer, self.recurrent_initializer = kernel_initializer, recurrent_initializer
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        """Weights by the initialisers, and the forget gate's bias."""
        weight_ih, weight_hh, bias = self.weights
        fill(weight_ih, self.kernel_initializer)
        fill(weight_hh, self.recurrent_initializer)
        fill(bias, self.bias_initializer)
        if self.unit_forget_bias:
            bias[self.units : 2 * self.units] = 1.0

    def forward(self, inputs: Float[Tensor, "R F"], state: Tree) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h, c = self._pair(state)
        h, c = self._step(inputs, h, c, self.activation)
        return h, (h, c)

    def array_shapes(self) -> dict[str, Shape]:
        width, size = self.widths()
        return {"kernel": (width, 4 * size), "recurrent_kernel": (size, 4 * size), "bias": (4 * size,)}

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        """From kernel, recurrent_kernel and bias, whose gates are i, f, g, o."""
        kernel, recurrent_kernel, bias = arrays.pick(self.array_shapes())
        return {"weight_ih": kernel.T, "weight_hh": recurrent_kernel.T, "bias": bias}


def _check_tuple(state_is_tuple: bool) -> None:
    if not state_is_tuple:
        raise UnsupportedError("state_is_tuple=False is not supported: the state is an LSTMStateTuple; leave it out.")
