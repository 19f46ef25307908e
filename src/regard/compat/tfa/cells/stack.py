"""Cells one above the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.compat.tfa.cells.contract import DeferredCell, RNNCell, as_cell, initial_state
from regard.compat.tfa.layers.deferred import Type, first_weight
from regard.compat.tfa.layers.originals import Array, FromTensorflow, Pool, in_order, parts_of, prefixed
from regard.errors import DataError, ShapeError, UnsupportedError


class MultiRNNCell(FromTensorflow, RNNCell):
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
        for below, cell in pairwise(self.cells):
            if isinstance(cell, DeferredCell) and isinstance(below, DeferredCell) and below.built:
                cell.build(below.output_size, like=first_weight(below))

    @property
    def state_size(self) -> Any:
        return tuple(cell.state_size for cell in self.cells)

    @property
    def output_size(self) -> int:
        size: int = self.cells[-1].output_size
        return size

    def array_names(self) -> list[str]:
        """Those of the cells, from the lowest."""
        cells = [parts_of(cell, f"cells[{n}]") for n, cell in enumerate(self.cells)]
        return [f"cell_{n}/{name}" for n, cell in enumerate(cells) for name in cell.array_names()]

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        """Of each cell the arrays of one scope: those of cell_0, cell_1, …, or as Keras has numbered the cells."""
        cells = [parts_of(cell, f"cells[{n}]") for n, cell in enumerate(self.cells)]
        scopes = {array.name: self._scope(array, cells) for array in arrays.arrays}
        groups = in_order(scope for scope in scopes.values() if scope is not None)
        if len(groups) != len(cells):
            raise DataError(
                f"The arrays are those of {len(groups)} cells, {', '.join(groups) or 'none'}, and the stack has "
                f"{len(cells)}.\n  arrays: {', '.join(scopes)}"
            )
        state: dict[str, Tensor] = {}
        for n, (cell, group) in enumerate(zip(cells, groups, strict=True)):
            own = arrays.part(lambda array, group=group: scopes[array.name] == group, cell)  # type: ignore[misc]
            state |= prefixed(f"cells.{n}", cell.take(own))
            own.finish()
        return state

    def _scope(self, array: Array, cells: Sequence[FromTensorflow]) -> str | None:
        """The part of an array's name that tells the cell, with what stands before it."""
        names = {name for cell in cells for name in cell.array_names()}
        own = max((len(name.split("/")) for name in names if array.ends_with(name)), default=0)
        for end, part in enumerate(array.path, 1):
            if re.fullmatch(r"cell_\d+", part) or (part.isdigit() and array.path[: end - 1][-1:] == ("cells",)):
                return "/".join(array.path[:end])
        return "/".join(array.path[:-own]) if own else None

    def get_initial_state(self, inputs: Tree = None, batch_size: int | None = None, dtype: Type = None) -> Tree:
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
