"""The linear layer of TensorFlow, which learns its input size from its first call."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.compat.tfa.layers.activations import Activation, activation_of
from regard.compat.tfa.layers.deferred import DeferredModule, Type, check_type, checked_width, placed, type_of
from regard.compat.tfa.layers.initialisers import Initialiser, fill
from regard.compat.tfa.layers.originals import tensors_of
from regard.errors import ShapeError
from regard.shapes import Float, describe


class Dense(DeferredModule):
    """y = activation(W x + b), as `tf.keras.layers.Dense` and `tf.layers.Dense`.

    The weight is (units, inputs), as in `torch.nn.Linear`: the transpose of TensorFlow's kernel.

    Args:
        units: the number of outputs.
        activation: applied to the sum, by its name in Keras or a function; none if None.
        use_bias: whether there is a b.
        kernel_initializer, bias_initializer: a name of Keras, or a function that fills a tensor; Glorot-uniform and
            zeros if None.
        input_size: the number of inputs; from the first call if None.
        dtype: of the weights; that of the inputs if None.
        name: kept, without effect.

    >>> Dense(4, input_size=3)(torch.zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        units: int,
        activation: str | Activation | None = None,
        use_bias: bool = True,
        kernel_initializer: Initialiser | None = None,
        bias_initializer: Initialiser | None = None,
        *,
        input_size: int | None = None,
        dtype: Type = None,
        name: str = "dense",
    ) -> None:
        super().__init__()
        self.units, self.use_bias, self.name = checked_width("units", units), use_bias, name
        self.activation = activation_of(activation)
        self.kernel_initializer = kernel_initializer or "glorot_uniform"
        self.bias_initializer = bias_initializer or "zeros"
        self.dtype = type_of(dtype)
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        if input_size is not None:
            self.build(input_size)

    @property
    def built(self) -> bool:
        """Whether the weights have been made."""
        return self.weight is not None

    @property
    def out_features(self) -> int:
        """`units`, by the name that torch's layers have for it."""
        return self.units

    def sizes_in(self, weights: Mapping[str, Tensor]) -> Mapping[str, int] | None:
        """The width of the weight."""
        return {"input_size": weights["weight"].shape[1]} if "weight" in weights else None

    def build(self, input_size: int, *, like: Tensor | None = None) -> None:
        """Makes the weights for so many inputs, unless they have been made.

        Args:
            like: whose device and type the weights get.
        """
        if self.built:
            return
        self.weight = nn.Parameter(torch.empty(self.units, input_size))
        fill(self.weight, self.kernel_initializer)
        if self.use_bias:
            self.bias = nn.Parameter(torch.empty(self.units))
            fill(self.bias, self.bias_initializer)
        placed(self, self.dtype, like)

    def from_tensorflow(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state dict from the arrays of the original: kernel and, if there is one, bias."""
        kernel, *bias = tensors_of(weights, "kernel", *(["bias"] if self.use_bias else []), layer=self)
        return {"weight": kernel.T} | ({"bias": bias[0]} if bias else {})

    def forward(self, inputs: Float[Tensor, "*rows F"]) -> Float[Tensor, "*rows D"]:
        """Outputs (…, units)."""
        if not self.built:
            self.build(inputs.shape[-1], like=inputs)
        weight = self.weight
        assert weight is not None
        if inputs.shape[-1] != weight.shape[1]:
            raise ShapeError(
                f"{self.name} was built for {weight.shape[1]} inputs.\n{describe({'inputs': ('R F', inputs)})}\n"
                "  Give it inputs of that width, or make another layer."
            )
        check_type("inputs", inputs, weight)
        outputs = linear(inputs, weight, self.bias)
        return outputs if self.activation is None else self.activation(outputs)
