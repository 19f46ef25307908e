"""The cells of TensorFlow 1 (`tf.nn.rnn_cell`) and of Keras.

Weights have torch's layout, as everywhere in the package: (gates · D, F) and (gates · D, D), the transpose of a kernel,
with gates in torch's order. An original's weights are brought into it by `from_tensorflow`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.contract import Tree
from regard.compat.tfa.activations import Activation, activation_of
from regard.compat.tfa.cell import DeferredCell, LSTMStateTuple
from regard.compat.tfa.deferred import Type, placed
from regard.compat.tfa.initialisers import Initialiser, fill
from regard.errors import UnsupportedError
from regard.layers.cells.cell import CELLS
from regard.layers.cells.reset_before import reset_before
from regard.shapes import Float


class AbstractGatedCell(DeferredCell):
    """A cell with weights `weight_ih` (gates · D, F), `weight_hh` (gates · D, D) and `bias` (gates · D)."""

    weight_ih: nn.Parameter | None
    weight_hh: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self, units: int, *, input_size: int | None = None, dtype: Type = None, name: str | None = None
    ) -> None:
        super().__init__(units, input_size=input_size, dtype=dtype, name=name)
        for weight in ("weight_ih", "weight_hh", "bias"):
            self.register_parameter(weight, None)

    def build(self, input_size: int, *, like: Tensor | None = None) -> None:
        """Makes the weights for so many inputs, unless they have been made.

        Args:
            like: whose device and type the weights get.
        """
        if self.built:
            return
        rows = self.num_gates * self.units
        self.weight_ih = nn.Parameter(torch.empty(rows, input_size))
        self.weight_hh = nn.Parameter(torch.empty(rows, self.units))
        self.bias = nn.Parameter(torch.zeros(rows))
        self.input_size = input_size
        with torch.no_grad():
            self.reset_parameters()
        placed(self, self.dtype, like)

    def reset_parameters(self) -> None:
        """The initial weights."""
        raise NotImplementedError

    @property
    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """`weight_ih`, `weight_hh` and `bias`."""
        assert self.weight_ih is not None
        assert self.weight_hh is not None
        assert self.bias is not None
        return self.weight_ih, self.weight_hh, self.bias


def _fill_jointly(cell: AbstractGatedCell, rows: slice, wanted: Initialiser) -> None:
    """Initialises the weights of some gates as one kernel over inputs and state, as in TensorFlow 1."""
    weight_ih, weight_hh, _ = cell.weights
    joint = torch.cat([weight_ih[rows], weight_hh[rows]], 1)
    fill(joint, wanted)
    weight_ih[rows], weight_hh[rows] = joint.split([weight_ih.shape[1], cell.units], 1)


class GRUCell(AbstractGatedCell):
    """TensorFlow 1's gated recurrent unit, whose reset gate multiplies the state before the product.

    r = σ(W_r x + U_r h + b_r),  z = σ(W_z x + U_z h + b_z),  n = tanh(W_n x + U_n (r h) + b_n),  h' = (1 - z) n + z h,

    the steps of the house's `gru_reset_before`; gates in the order r, z, n. The state is h (R, D).

    Args:
        num_units: D.
        activation: in the place of tanh, by its name in Keras or a function.
        reuse: without effect: weights belong to the object.
        kernel_initializer: of the kernels of the two gates and of the candidate, over inputs and state.
        bias_initializer: a name or a function; None for 1 of the gates and 0 of the candidate.
        name: kept, without effect.
        dtype: of the weights; that of the inputs if None.
        input_size: F; from the first call if None.

    Source: Cho et al. 2014 (arXiv 1406.1078), `tf.nn.rnn_cell.GRUCell`.

    >>> output, state = GRUCell(4)(torch.zeros(2, 3), torch.zeros(2, 4))
    >>> output.shape
    torch.Size([2, 4])
    """

    num_gates = 3

    def __init__(
        self,
        num_units: int,
        activation: str | Activation | None = None,
        reuse: bool | None = None,
        kernel_initializer: Initialiser | None = None,
        bias_initializer: Initialiser | None = None,
        name: str | None = None,
        dtype: Type = None,
        *,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, input_size=input_size, dtype=dtype, name=name)
        self.activation = _unless_tanh(activation)
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        """Kernels Glorot-uniform, biases of the gates one and of the candidate zero, unless told otherwise."""
        gates, candidate = slice(0, 2 * self.units), slice(2 * self.units, None)
        bias = self.weights[2]
        for rows, first in ((gates, "ones"), (candidate, "zeros")):
            _fill_jointly(self, rows, self.kernel_initializer or "glorot_uniform")
            fill(bias[rows], self.bias_initializer or first)

    def forward(self, inputs: Float[Tensor, "R F"], state: Float[Tensor, "R D"]) -> tuple[Tensor, Tensor]:
        """The new h, twice."""
        self._check(inputs)
        weight_ih, weight_hh, bias = self.weights
        x = linear(inputs, weight_ih, bias)
        if self.activation is None:
            new = reset_before(x, state, weight_hh)
        else:
            size = self.units
            r, z = (x[:, : 2 * size] + linear(state, weight_hh[: 2 * size])).sigmoid().chunk(2, -1)
            n = self.activation(x[:, 2 * size :] + linear(r * state, weight_hh[2 * size :]))
            new = (1 - z) * n + z * state
        return new, new

    def from_tensorflow(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state dict from the arrays of the original: gates/kernel, gates/bias, candidate/kernel, candidate/bias.

        Differentiable, so that gradients can be compared too.
        """
        gates, candidate = weights["gates/kernel"].T, weights["candidate/kernel"].T
        joint = torch.cat([gates, candidate])
        bias = torch.cat([weights["gates/bias"], weights["candidate/bias"]])
        return {"weight_ih": joint[:, : -self.units], "weight_hh": joint[:, -self.units :], "bias": bias}


class BasicRNNCell(AbstractGatedCell):
    """TensorFlow 1's simple cell, h' = tanh(W x + U h + b). The state is h (R, D).

    Args:
        num_units: D.
        activation: in the place of tanh, by its name in Keras or a function.
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
        self.activation = _unless_tanh(activation)
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        """The kernel over inputs and state Glorot-uniform, the bias zero."""
        _fill_jointly(self, slice(None), "glorot_uniform")

    def forward(self, inputs: Float[Tensor, "R F"], state: Float[Tensor, "R D"]) -> tuple[Tensor, Tensor]:
        """The new h, twice."""
        self._check(inputs)
        weight_ih, weight_hh, bias = self.weights
        if self.activation is None:
            (new,) = CELLS["rnn"].step(inputs, (state,), (weight_ih, weight_hh, bias, torch.zeros_like(bias)))
        else:
            new = self.activation(linear(inputs, weight_ih, bias) + linear(state, weight_hh))
        return new, new

    def from_tensorflow(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state dict from the arrays of the original: kernel, bias."""
        kernel = weights["kernel"].T
        return {"weight_ih": kernel[:, : -self.units], "weight_hh": kernel[:, -self.units :], "bias": weights["bias"]}


class AbstractLSTMCell(AbstractGatedCell):
    """c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c'), with gates in the order i, f, g, o and one bias."""

    num_gates = 4

    def _step(self, inputs: Tensor, h: Tensor, c: Tensor, activation: Activation | None) -> tuple[Tensor, Tensor]:
        """The new h and c."""
        self._check(inputs)
        weight_ih, weight_hh, bias = self.weights
        if activation is None:
            h, c = CELLS["lstm"].step(inputs, (h, c), (weight_ih, weight_hh, bias, torch.zeros_like(bias)))
            return h, c
        i, f, g, o = (linear(inputs, weight_ih, bias) + linear(h, weight_hh)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * activation(g)
        return o.sigmoid() * activation(c), c

    @property
    def state_size(self) -> Any:
        """(D, D)."""
        return (self.units, self.units)


class LSTMCell(AbstractLSTMCell):
    """TensorFlow 1's LSTM. The state is an `LSTMStateTuple` (c, h).

    Args:
        num_units: D.
        use_peepholes, num_proj, cell_clip, proj_clip: refused; there are no such cells here.
        initializer: of the kernel over inputs and state; Glorot-uniform if None.
        num_unit_shards, num_proj_shards, reuse: without effect.
        forget_bias: the initial bias of the forget gate. The original keeps a bias of 0 and adds this number in every
            step, which is the same; `from_tensorflow` adds it to the original's bias.
        state_is_tuple: only True.
        activation: in the place of tanh, by its name in Keras or a function.
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
                raise UnsupportedError(f"{option}={value}: there is no such LSTM here; leave it out.")
        _refuse_joined(state_is_tuple)
        super().__init__(num_units, input_size=input_size, dtype=dtype, name=name)
        self.initializer, self.forget_bias = initializer, forget_bias
        self.activation = _unless_tanh(activation)
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        """The kernel over inputs and state by `initializer`, the forget gate's bias `forget_bias`, the others zero."""
        _fill_jointly(self, slice(None), self.initializer or "glorot_uniform")
        self.weights[2][self.units : 2 * self.units] = self.forget_bias

    @property
    def state_size(self) -> Any:
        """(D, D), as an `LSTMStateTuple`."""
        return LSTMStateTuple(self.units, self.units)

    def forward(self, inputs: Float[Tensor, "R F"], state: Tree) -> tuple[Tensor, LSTMStateTuple]:
        """h and the new state."""
        c, h = state
        h, c = self._step(inputs, h, c, self.activation)
        return h, LSTMStateTuple(c, h)

    def from_tensorflow(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state dict from the arrays of the original: kernel, bias (gates i, g, f, o)."""
        i, g, f, o = torch.cat([weights["kernel"], weights["bias"][None]]).T.chunk(4)
        f = torch.cat([f[:, :-1], f[:, -1:] + self.forget_bias], 1)
        joint = torch.cat([i, f, g, o])
        size = self.units
        return {"weight_ih": joint[:, : -size - 1], "weight_hh": joint[:, -size - 1 : -1], "bias": joint[:, -1]}


class BasicLSTMCell(LSTMCell):
    """TensorFlow 1's LSTM by its older name, with its order of arguments: an `LSTMCell` of fewer options.

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
    """`tf.keras.layers.LSTMCell`. The state is (h, c), Keras' order; a list [h, c] is taken too.

    Args:
        units: D.
        activation: in the place of tanh, by its name or a function; the identity if None.
        recurrent_activation: of the gates: only "sigmoid".
        use_bias: only True.
        kernel_initializer, recurrent_initializer, bias_initializer: of the weights of inputs, of those of the state,
            and of the bias.
        unit_forget_bias: whether the forget gate's bias begins at 1 whatever the initialiser says.
        dropout, recurrent_dropout: only 0: wrap the cell in a `DropoutWrapper`.
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
        _refuse_keras(recurrent_activation, use_bias, dropout, recurrent_dropout)
        self.activation, self.unit_forget_bias = _unless_tanh(activation or "linear"), unit_forget_bias
        self.bias_initializer = bias_initializer
        self.kernel_initializer, self.recurrent_initializer = kernel_initializer, recurrent_initializer
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        """Weights by the initialisers, but for the forget gate's bias."""
        weight_ih, weight_hh, bias = self.weights
        fill(weight_ih, self.kernel_initializer)
        fill(weight_hh, self.recurrent_initializer)
        fill(bias, self.bias_initializer)
        if self.unit_forget_bias:
            bias[self.units : 2 * self.units] = 1.0

    def forward(self, inputs: Float[Tensor, "R F"], state: Tree) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """h and the new state (h, c)."""
        h, c = state
        h, c = self._step(inputs, h, c, self.activation)
        return h, (h, c)

    def from_tensorflow(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state dict from the arrays of the original: kernel, recurrent_kernel, bias (gates i, f, g, o)."""
        return {
            "weight_ih": weights["kernel"].T,
            "weight_hh": weights["recurrent_kernel"].T,
            "bias": weights["bias"],
        }


class KerasGRUCell(AbstractGatedCell):
    """`tf.keras.layers.GRUCell`. The state is h (R, D); a list [h] is taken too.

    With `reset_after`, its default, the candidate is n = tanh(W x + b + r (U h + c)), as torch's; without it the reset
    gate multiplies the state before the product, as in `GRUCell`, and there is no c. Gates in torch's order r, z, n.

    Args:
        units: D.
        activation: only "tanh".
        recurrent_activation, use_bias: as in `KerasLSTMCell`.
        kernel_initializer, recurrent_initializer, bias_initializer, dropout, recurrent_dropout: as there.
        reset_after: whether the reset gate multiplies the product.
        dtype, name, input_size: as in `GRUCell`.
    """

    num_gates = 3
    bias_hh: nn.Parameter | None

    def __init__(
        self,
        units: int,
        activation: str | Activation | None = "tanh",
        recurrent_activation: str = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initialiser = "glorot_uniform",
        recurrent_initializer: Initialiser = "orthogonal",
        bias_initializer: Initialiser = "zeros",
        *,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        dtype: Type = None,
        name: str | None = None,
        input_size: int | None = None,
    ) -> None:
        super().__init__(units, input_size=input_size, dtype=dtype, name=name)
        _refuse_keras(recurrent_activation, use_bias, dropout, recurrent_dropout)
        if _unless_tanh(activation or "linear") is not None:
            raise UnsupportedError(f"activation={activation!r}: a KerasGRUCell has tanh only; leave the argument out.")
        self.reset_after, self.bias_initializer = reset_after, bias_initializer
        self.kernel_initializer, self.recurrent_initializer = kernel_initializer, recurrent_initializer
        self.register_parameter("bias_hh", None)
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        """Weights by the initialisers."""
        weight_ih, weight_hh, bias = self.weights
        fill(weight_ih, self.kernel_initializer)
        fill(weight_hh, self.recurrent_initializer)
        fill(bias, self.bias_initializer)
        if self.reset_after:
            self.bias_hh = nn.Parameter(torch.zeros_like(bias))
            fill(self.bias_hh, self.bias_initializer)

    def forward(self, inputs: Float[Tensor, "R F"], state: Tree) -> tuple[Tensor, Tree]:
        """The new h, and the new state."""
        self._check(inputs)
        (h,) = state if isinstance(state, (list, tuple)) else (state,)
        weight_ih, weight_hh, bias = self.weights
        if self.bias_hh is None:
            new = reset_before(linear(inputs, weight_ih, bias), h, weight_hh)
        else:
            (new,) = CELLS["gru"].step(inputs, (h,), (weight_ih, weight_hh, bias, self.bias_hh))
        return new, new if isinstance(state, Tensor) else (new,)

    def from_tensorflow(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state dict from the arrays of the original: kernel, recurrent_kernel, bias (gates z, r, n)."""

        def ordered(gates: Tensor) -> Tensor:
            z, r, n = gates.chunk(3, -1)
            return torch.cat([r, z, n], -1)

        bias = ordered(weights["bias"])
        biases = {"bias": bias[0], "bias_hh": bias[1]} if self.reset_after else {"bias": bias}
        return {
            "weight_ih": ordered(weights["kernel"]).T,
            "weight_hh": ordered(weights["recurrent_kernel"]).T,
            **biases,
        }


def _refuse_joined(state_is_tuple: bool) -> None:
    if not state_is_tuple:
        raise UnsupportedError("state_is_tuple=False: the state is an LSTMStateTuple here; leave the argument out.")


def _unless_tanh(activation: str | Activation | None) -> Activation | None:
    """The activation of a cell in the place of tanh; None for tanh itself, which fused steps have."""
    if activation is None or activation in ("tanh", torch.tanh):
        return None
    return activation_of(activation) or (lambda x: x)


def _refuse_keras(recurrent_activation: str, use_bias: bool, dropout: float, recurrent_dropout: float) -> None:
    """Refuses the options of Keras' cells that these have not."""
    if recurrent_activation != "sigmoid":
        raise UnsupportedError(f"recurrent_activation={recurrent_activation!r}: gates have a sigmoid; leave it out.")
    if not use_bias:
        raise UnsupportedError("use_bias=False: the cells have a bias; leave it out and set it to zeros.")
    for name, value in (("dropout", dropout), ("recurrent_dropout", recurrent_dropout)):
        if value:
            raise UnsupportedError(f"{name}={value}: wrap the cell in a DropoutWrapper instead.")
