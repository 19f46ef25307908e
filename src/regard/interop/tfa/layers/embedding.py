"""The embedding of Keras."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from regard.errors import DataError, ShapeError, UnsupportedError
from regard.interop.tfa.layers.deferred import Type, checked_width, type_of
from regard.interop.tfa.layers.functions import Initialiser, fill
from regard.interop.tfa.layers.originals import FromTensorflow, Pool
from regard.shapes import Float, Int, describe


class Embedding(FromTensorflow):
    """A vector for each id, as `tf.keras.layers.Embedding`; `weight` (N, E) is its `embeddings`.

    Samplers and decoders get `layer.weight` instead of `layer.variables[0]`.

    Args:
        input_dim: N, the number of ids.
        output_dim: E.
        embeddings_initializer: a name of Keras, or a function that fills a tensor.
        mask_zero: only False; a mask is an argument of the following layer.
        dtype: of the vectors; torch's default if None.
        name, input_length: kept, without effect.

    >>> Embedding(9, 4)(torch.tensor([[1, 8, 0]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Initialiser = "uniform",
        *,
        mask_zero: bool = False,
        input_length: int | None = None,
        dtype: Type = None,
        name: str = "embedding",
    ) -> None:
        super().__init__()
        if mask_zero:
            raise UnsupportedError(
                "mask_zero=True is not supported. Leave it out, and give mask=ids != 0 to the recurrent layer and "
                "memory_mask=ids != 0, or the lengths, to setup_memory."
            )
        self.input_dim = checked_width("input_dim", input_dim)
        self.output_dim = checked_width("output_dim", output_dim)
        self.input_length, self.name = input_length, name
        self.weight = nn.Parameter(torch.empty(self.input_dim, self.output_dim, dtype=type_of(dtype)))
        fill(self.weight, embeddings_initializer)

    def array_names(self) -> list[str]:
        return ["embeddings"]

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        (table,) = arrays.pick({"embeddings": (self.input_dim, self.output_dim)})
        return {"weight": table}

    def forward(self, ids: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows E"]:
        """Vectors (…, E) of ids (…).

        Raises:
            ShapeError: for anything but whole numbers.
            DataError: for an id that is none of the N.
        """
        ids = torch.as_tensor(ids, device=self.weight.device)
        if ids.is_floating_point() or ids.dtype == torch.bool:
            raise ShapeError("ids must be whole numbers.\n" + describe({"ids": ("B T", ids)}))
        if ids.numel() and not torch.compiler.is_compiling():
            low, high = (int(x) for x in torch.aminmax(ids))
            if low < 0 or high >= self.input_dim:
                raise DataError(
                    f"{self.name} has vectors for the ids 0 to {self.input_dim - 1}; got ids from {low} to {high}. "
                    "input_dim is the number of ids, including padding."
                )
        return embedding(ids.long(), self.weight)
