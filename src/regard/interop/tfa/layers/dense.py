"""The linear layer of TensorFlow, which gets its input size from the first call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.errors import ShapeError
from regard.interop.tfa.layers.deferred import (
    DeferredModule,
    DeferredParameter,
    Type,
    check_type,
    checked_width,
    deferred,
    first_weight,
    materialize,
    target,
    tensors,
    type_of,
)
from regard.interop.tfa.layers.functions import Activation, Initialiser, activation_of, fill
from regard.interop.tfa.layers.originals import FromTensorflow, Pool
from regard.shapes import Float, describe


class Dense(FromTensorflow, DeferredModule):
    """y = activation(W x + b), as `tf.keras.layers.Dense` and `tf.layers.Dense`.

    The weight is (units, inputs), as in `torch.nn.Linear`: the transpose of TensorFlow's kernel.

    Args:
        activation: by its name in Keras or a function; none if None.
        use_bias: whether there is a b.
        kernel_initializer, bias_initializer: a name of Keras, or a function that fills a tensor; Glorot-uniform and
            zeros if None.
        input_size: the number of inputs; from the first call if None.
        dtype: of the weights; that of the inputs if None.
        name: without effect.

    >>> Dense(4, input_size=3)(torch.zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    weight: nn.Parameter
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
        self.weight = deferred(f"The weight of {name}", self.dtype)
        self.register_parameter("bias", deferred(f"The bias of {name}", self.dtype) if use_bias else None)
        if input_size is not None:
            self.build(input_size)

    @property
    def built(self) -> bool:
        return not isinstance(self.weight, DeferredParameter)

    @property
    def out_features(self) -> int:
        """`units`, by torch's name."""
        return self.units

    def sizes_in(self, weights: Mapping[str, Tensor]) -> Mapping[str, int] | None:
        return {"input_size": weights["weight"].shape[1]} if "weight" in weights else None

    def build(self, input_size: int, *, like: Tensor | None = None) -> None:
        """Makes the weights for this number of inputs, unless they have been made.

        Args:
            like: a tensor with the device and type of the weights.
        """
        if self.built:
            return
        place = target(self, self.dtype, like)
        materialize(self.weight, self.units, input_size)
        if self.bias is not None:
            materialize(self.bias, self.units)
        with torch.inference_mode(False):
            self.reset_parameters()
        self.to(**place)

    def reset_parameters(self) -> None:
        """The initial weights."""
        fill(self.weight, self.kernel_initializer)
        if self.bias is not None:
            fill(self.bias, self.bias_initializer)

    def array_names(self) -> list[str]:
        return ["kernel", "bias"][: 1 + self.use_bias]

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        shapes = {"kernel": (self.weight.shape[1] if self.built else "F", self.units), "bias": (self.units,)}
        kernel, *bias = arrays.pick({name: shapes[name] for name in self.array_names()})
        return {"weight": kernel.T} | ({"bias": bias[0]} if bias else {})

    def forward(self, inputs: Float[Tensor, "*rows F"]) -> Float[Tensor, "*rows D"]:
        """Outputs (…, units)."""
        inputs = tensors(inputs, self)
        if not self.built:
            self.build(inputs.shape[-1], like=inputs)
        if inputs.shape[-1] != self.weight.shape[1]:
            raise ShapeError(
                f"{self.name} was built for {self.weight.shape[1]} inputs.\n{describe({'inputs': ('R F', inputs)})}\n"
                "  Give it inputs of that width, or make another layer."
            )
        check_type("inputs", inputs, self.weight)
        outputs = linear(inputs, self.weight, self.bias)
        return outputs if self.activation is None else self.activation(outputs)


def width_of(layer: Any, size: int) -> int:
    """The number of outputs of a layer of `size` inputs; `size` without a layer.

    A layer that declares no number is called with a row of zeros.
    """
    if layer is None:
        return size
    for name in ("out_features", "units", "output_size"):
        if isinstance(width := getattr(layer, name, None), int):
            return width
    like = first_weight(layer) if isinstance(layer, nn.Module) else torch.empty(0)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return int(layer(like.new_zeros(1, size)).shape[-1])
