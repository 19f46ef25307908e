"""A residual connection around a cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from regard.attention.contract import Tree
from regard.compat.tfa.cells.contract import AbstractCellWrapper
from regard.errors import ShapeError


class ResidualWrapper(AbstractCellWrapper):
    """A cell whose output has its input added.

    Args:
        residual_fn: from input and output to the output, in the place of their sum.

    Source: Wu et al. 2016 (arXiv 1609.08144), section 3.1; `tf.nn.rnn_cell.ResidualWrapper`.
    """

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Tensor], Tensor] | None = None) -> None:
        super().__init__(cell)
        self.residual_fn = _sum if residual_fn is None else residual_fn

    def forward(self, inputs: Tree, state: Tree) -> tuple[Tensor, Tree]:
        """A step of the cell.

        Raises:
            ShapeError: if input and output differ in width and there is no function of one's own.
        """
        output, new = self.cell(inputs, state)
        return self.residual_fn(inputs, output), new


def _sum(inputs: Tensor, output: Tensor) -> Tensor:
    if not isinstance(inputs, Tensor) or inputs.shape != output.shape:
        shape = tuple(inputs.shape) if isinstance(inputs, Tensor) else type(inputs).__name__
        raise ShapeError(
            f"A residual connection adds input and output: {shape} and {tuple(output.shape)} have to be equal. Give a "
            "cell of as many units as it has inputs, or residual_fn."
        )
    return inputs + output
