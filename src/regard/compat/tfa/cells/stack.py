"""Cells one above the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.compat.tfa.cells.contract import RNNCell, as_cell, initial_state
from regard.compat.tfa.layers.deferred import Type
from regard.errors import ShapeError, UnsupportedError


class MultiRNNCell(RNNCell):
    """Cells one above the other; each is fed the output of the one below. The state is a tuple, one entry for each.

    Args:
        cells: from the lowest to the highest.
        state_is_tuple: only True.

    Raises:
        UnsupportedError: for no cells, or one that is there twice.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not state_is_tuple:
            raise UnsupportedError("state_is_tuple=False: the state is a tuple here; leave the argument out.")
        if not isinstance(cells, (list, tuple, nn.ModuleList)):
            raise UnsupportedError(f"cells must be a list of cells; got {type(cells).__name__}.")
        if not len(cells):
            raise UnsupportedError("A stack needs one cell or more; got none.")
        if len({id(cell) for cell in cells}) < len(cells):
            raise UnsupportedError(
                "A cell is in the stack more than once, so that its layers would share their weights: make one for "
                "each layer, as [GRUCell(n) for _ in range(layers)]."
            )
        self.cells: Any = nn.ModuleList(as_cell(cell) for cell in cells)

    @property
    def state_size(self) -> Any:
        """Those of the cells, a tuple."""
        return tuple(cell.state_size for cell in self.cells)

    @property
    def output_size(self) -> int:
        """That of the highest cell."""
        size: int = self.cells[-1].output_size
        return size

    def get_initial_state(self, inputs: Tree = None, batch_size: int | None = None, dtype: Type = None) -> Tree:
        """Those of the cells, a tuple."""
        like = next(tree.leaves(inputs), None)
        if like is None and batch_size is not None:
            return tuple(initial_state(cell, batch_size, dtype) for cell in self.cells)
        return super().get_initial_state(inputs, batch_size, dtype)

    def forward(self, inputs: Tree, state: Tree) -> tuple[Tensor, Tree]:
        """A step of every cell.

        Raises:
            ShapeError: for a state that is no tuple of as many entries.
        """
        if not isinstance(state, (tuple, list)) or len(state) != len(self.cells):
            number = f"{len(state)} entries" if isinstance(state, (tuple, list)) else f"the type {type(state).__name__}"
            raise ShapeError(
                f"The state has {number} for {len(self.cells)} cells: give a tuple with an entry for each."
            )
        after = []
        for cell, before in zip(self.cells, state, strict=True):
            inputs, new = cell(inputs, before)
            after.append(new)
        return inputs, tuple(after)
