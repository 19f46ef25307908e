"""Gated recurrent units: TensorFlow 1's and Keras'."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.contract import Tree
from regard.errors import UnsupportedError
from regard.interop.tfa.cells.gated import AbstractGatedCell, check_keras, fill_jointly, unless_tanh
from regard.interop.tfa.layers.deferred import DeferredParameter, Type, materialize
from regard.interop.tfa.layers.functions import Activation, Initialiser, fill
from regard.interop.tfa.layers.originals import Pool, Shape
from regard.layers.cells.cell import CELLS
from regard.layers.cells.reset_before import reset_before
from regard.shapes import Float


class GRUCell(AbstractGatedCell):
    """TensorFlow 1's gated recurrent unit, whose reset gate multiplies the state before the product.

    r = σ(W_r x + U_r h + b_r),  z = σ(W_z x + U_z h + b_z),  n = tanh(W_n x + U_n (r h) + b_n),  h' = (1 - z) n + z h,

    the cell `gru_reset_before` of `regard.layers`; gates in the order r, z, n. The state is h (R, D).

    Args:
        num_units: D.
        activation: instead of tanh, by its name in Keras or a function.
        reuse: without effect: weights belong to the object.
        kernel_initializer: of the kernels of the two gates and of the candidate, over inputs and state.
        bias_initializer: a name or a function; if None, 1 for the gates and 0 for the candidate.
        name: without effect.
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
        self.activation = unless_tanh(activation)
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        """By default kernels Glorot-uniform, biases of the gates 1 and of the candidate 0."""
        gates, candidate = slice(0, 2 * self.units), slice(2 * self.units, None)
        bias = self.weights[2]
        for rows, first in ((gates, "ones"), (candidate, "zeros")):
            fill_jointly(self, rows, self.kernel_initializer or "glorot_uniform")
            fill(bias[rows], self.bias_initializer or first)

    def forward(self, inputs: Float[Tensor, "R F"], state: Float[Tensor, "R D"]) -> tuple[Tensor, Tensor]:
        """The new h, twice."""
        self._check(inputs, state)
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

    def array_shapes(self) -> dict[str, Shape]:
        width, size = self.widths(joint=True)
        gates: dict[str, Shape] = {"gates/kernel": (width, 2 * size), "gates/bias": (2 * size,)}
        return gates | {"candidate/kernel": (width, size), "candidate/bias": (size,)}

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        gates, gate_bias, candidate, candidate_bias = arrays.pick(self.array_shapes())
        joint, bias = torch.cat([gates.T, candidate.T]), torch.cat([gate_bias, candidate_bias])
        return {"weight_ih": joint[:, : -self.units], "weight_hh": joint[:, -self.units :], "bias": bias}


class KerasGRUCell(AbstractGatedCell):
    """`tf.keras.layers.GRUCell`. The state is h (R, D), or a list [h].

    With `reset_after` the candidate is n = tanh(W x + b + r (U h + c)), as torch's; without it the reset gate
    multiplies the state before the product, as in `GRUCell`, and there is no c. Gates in torch's order r, z, n.

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
        check_keras(recurrent_activation, use_bias, dropout, recurrent_dropout)
        if unless_tanh(activation or "linear") is not None:
            raise UnsupportedError(f"activation={activation!r} is not supported: a KerasGRUCell has tanh.")
        self.reset_after, self.bias_initializer = reset_after, bias_initializer
        self.kernel_initializer, self.recurrent_initializer = kernel_initializer, recurrent_initializer
        self.register_parameter("bias_hh", None)
        if reset_after:
            self._defer("bias_hh")
        if input_size is not None:
            self.build(input_size)

    def reset_parameters(self) -> None:
        weight_ih, weight_hh, bias = self.weights
        fill(weight_ih, self.kernel_initializer)
        fill(weight_hh, self.recurrent_initializer)
        fill(bias, self.bias_initializer)
        if self.bias_hh is not None:
            if isinstance(self.bias_hh, DeferredParameter):
                materialize(self.bias_hh, *bias.shape)
            fill(self.bias_hh, self.bias_initializer)

    def forward(self, inputs: Float[Tensor, "R F"], state: Tree) -> tuple[Tensor, Tree]:
        """The new h, and the new state."""
        h = state[0] if isinstance(state, (list, tuple)) and len(state) == 1 else state
        self._check(inputs, h)
        weight_ih, weight_hh, bias = self.weights
        if self.bias_hh is None:
            new = reset_before(linear(inputs, weight_ih, bias), h, weight_hh)
        else:
            (new,) = CELLS["gru"].step(inputs, (h,), (weight_ih, weight_hh, bias, self.bias_hh))
        return new, new if isinstance(state, Tensor) else (new,)

    def array_shapes(self) -> dict[str, Shape]:
        width, size = self.widths()
        bias: Shape = (2, 3 * size) if self.reset_after else (3 * size,)
        return {"kernel": (width, 3 * size), "recurrent_kernel": (size, 3 * size), "bias": bias}

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        """From kernel, recurrent_kernel and bias, whose gates are z, r, n."""

        def ordered(gates: Tensor) -> Tensor:
            z, r, n = gates.chunk(3, -1)
            return torch.cat([r, z, n], -1)

        kernel, recurrent_kernel, bias = map(ordered, arrays.pick(self.array_shapes()))
        biases = {"bias": bias[0], "bias_hh": bias[1]} if self.reset_after else {"bias": bias}
        return {"weight_ih": kernel.T, "weight_hh": recurrent_kernel.T, **biases}
