"""Linear layers before and after a cell."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.attention.contract import Tree
from regard.compat.tfa.cells.contract import AbstractCellWrapper
from regard.compat.tfa.layers.activations import Activation
from regard.compat.tfa.layers.dense import Dense
from regard.compat.tfa.layers.originals import Pool, base_of, prefixed


class AbstractProjectionWrapper(AbstractCellWrapper):
    """A cell with a linear layer, `projection`, whose arrays are those directly in the wrapper's scope."""

    projection: Dense

    def array_names(self) -> list[str]:
        return [f"projection/{name}" for name in self.projection.array_names()] + super().array_names()

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        scopes = ("projection", "output_projection_wrapper", "input_projection_wrapper")
        own = arrays.part(lambda array: base_of(array.path[-2:][0]) in scopes, self.projection)
        return prefixed("projection", self.projection.take(own)) | super().take(arrays)


class OutputProjectionWrapper(AbstractProjectionWrapper):
    """A cell whose output goes through a linear layer with bias, `projection`.

    Args:
        activation: applied to it, by its name in Keras or a function; none if None.
        reuse: without effect: weights belong to the object.
    """

    def __init__(
        self,
        cell: Any,
        output_size: int,
        activation: str | Activation | None = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell)
        self.projection = Dense(output_size, activation, input_size=self.cell.output_size, name="projection")

    @property
    def output_size(self) -> int:
        return self.projection.units

    def forward(self, inputs: Tree, state: Tree) -> tuple[Tensor, Tree]:
        output, new = self.cell(inputs, state)
        return self.projection(output), new


class InputProjectionWrapper(AbstractProjectionWrapper):
    """A cell whose input comes through a linear layer with bias, `projection`.

    Args:
        num_proj: the width of its input.
        activation: applied to it, by its name in Keras or a function; none if None.
        input_size: of the inputs; from the first call if None.
        reuse: without effect: weights belong to the object.
    """

    def __init__(
        self,
        cell: Any,
        num_proj: int,
        activation: str | Activation | None = None,
        input_size: int | None = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell)
        self.projection = Dense(num_proj, activation, input_size=input_size, name="projection")

    def forward(self, inputs: Tensor, state: Tree) -> tuple[Tensor, Tree]:
        output, new = self.cell(self.projection(inputs), state)
        return output, new
