"""Wrappers of cells: stacks, dropout, residual connections and projections."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.errors import ConfigError, DataError, ShapeError, UnsupportedError
from regard.interop.tfa.cells.contract import (
    AbstractCellWrapper,
    DeferredCell,
    LSTMStateTuple,
    RNNCell,
    as_cell,
    initial_state,
)
from regard.interop.tfa.layers.deferred import Type, first_weight
from regard.interop.tfa.layers.dense import Dense
from regard.interop.tfa.layers.functions import Activation
from regard.interop.tfa.layers.originals import Array, FromTensorflow, Pool, base_of, in_order, parts_of, prefixed
from regard.layers import Dropout


class MultiRNNCell(FromTensorflow, RNNCell):
    """A stack of cells; each is fed the output of the cell below. The state is a tuple with an entry for each.

    Args:
        cells: from the lowest to the highest.
        state_is_tuple: only True.

    Raises:
        UnsupportedError: for no cells, or repeated ones.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not state_is_tuple:
            raise UnsupportedError("state_is_tuple=False is not supported: the state is a tuple; leave it out.")
        if not isinstance(cells, (list, tuple, nn.ModuleList)):
            raise UnsupportedError(f"cells must be a list of cells; got {type(cells).__name__}.")
        if not len(cells):
            raise UnsupportedError("A stack needs one or more cells; got none.")
        if len({id(cell) for cell in cells}) < len(cells):
            raise UnsupportedError(
                "A cell is in the stack more than once, so its layers would share their weights: make one for each "
                "layer, as [GRUCell(n) for _ in range(layers)]."
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
        """For each cell the arrays of one scope: cell_0, cell_1, …, or in Keras' numbering of cells."""
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
        """The scope of a cell in an array's name."""
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
            ShapeError: for a state that is no tuple with an entry for each cell.
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


class DropoutWrapper(AbstractCellWrapper):
    """Dropout on inputs, outputs and state of a cell, with probabilities of keeping a number.

    Numbers are dropped only in training mode, by `regard.layers.Dropout`; in TensorFlow 1 the probabilities had to be
    set to 1 for evaluation.

    Args:
        input_keep_prob, output_keep_prob, state_keep_prob: probabilities above 0, at most 1. In an `LSTMStateTuple`
            only h is dropped, as in the original; the output of the same step has its own mask.
        variational_recurrent: not supported; the original has one mask for all steps and calls.
        input_size, dtype: without effect.
        seed: of the masks; if None, torch's generator or `regard.layers.items.drawing` draws them.
        dropout_state_filter_visitor: from a node of the state to whether it is dropped; for a tuple also a tuple of
            such values. None drops all but c of an `LSTMStateTuple`.

    Source: Zaremba, Sutskever & Vinyals 2014 (arXiv 1409.2329); `tf.nn.rnn_cell.DropoutWrapper`.
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: float = 1.0,
        output_keep_prob: float = 1.0,
        state_keep_prob: float = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Type = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(cell)
        if variational_recurrent:
            raise UnsupportedError(
                "variational_recurrent=True: one mask for all steps is not supported; leave it out, or use zoneout or "
                "dropout on the state of regard.layers.CellStack."
            )
        probabilities = {"input": input_keep_prob, "output": output_keep_prob, "state": state_keep_prob}
        for name, probability in probabilities.items():
            if not 0 < probability <= 1:
                raise ConfigError(f"{name}_keep_prob={probability} must be a probability above 0, at most 1.")
        self.input_dropout, self.output_dropout, self.state_dropout = (
            Dropout(1 - probability) if seed is None else SeededDropout(1 - probability, seed + number)
            for number, probability in enumerate(probabilities.values())
        )
        self.filter = dropout_state_filter_visitor or _drops_all_but_c

    def forward(self, inputs: Tree, state: Tree) -> tuple[Tensor, Tree]:
        if self.input_dropout.p:
            inputs = tree.map(lambda leaf: self.input_dropout(leaf), inputs)
        output, new = self.cell(inputs, state)
        if self.state_dropout.p:
            new = self._drop_state(new, self.filter(new), [0])
        return (self.output_dropout(output) if self.output_dropout.p else output), new

    def _drop_state(self, state: Tree, wanted: Any, count: list[int]) -> Tree:
        """The state with dropout; `count` numbers its tensors, each of which has its own mask."""
        if isinstance(state, Tensor):
            count[0] += 1
            return self.state_dropout(state, layer=count[0]) if wanted else state
        parts = [
            self._drop_state(part, self.filter(part) if wanted is True else each, count)
            for part, each in zip(state, wanted if isinstance(wanted, tuple) else (wanted,) * len(state))
        ]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def _drops_all_but_c(state: Any) -> Any:
    return LSTMStateTuple(False, True) if isinstance(state, LSTMStateTuple) else True


class SeededDropout(nn.Module):
    """Dropout with a sequence of masks from a seed.

    Args:
        p: the probability that a number is dropped.
        seed: of the first mask.
    """

    def __init__(self, p: float, seed: int) -> None:
        super().__init__()
        self.p, self.seed = p, seed
        self._generator: torch.Generator | None = None

    def forward(self, x: Tensor, *, layer: int = 0) -> Tensor:
        """Drops numbers in training mode."""
        if not self.training or not self.p:
            return x
        if self._generator is None or self._generator.device != x.device:
            self._generator = torch.Generator(x.device).manual_seed(self.seed)
        mask = torch.empty_like(x).bernoulli_(1 - self.p, generator=self._generator)
        return x * mask / (1 - self.p)


class ResidualWrapper(AbstractCellWrapper):
    """A cell whose output has its input added.

    Args:
        residual_fn: from input and output to the output, instead of their sum.

    Source: Wu et al. 2016 (arXiv 1609.08144), section 3.1; `tf.nn.rnn_cell.ResidualWrapper`.
    """

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Tensor], Tensor] | None = None) -> None:
        super().__init__(cell)
        self.residual_fn = _sum if residual_fn is None else residual_fn

    def forward(self, inputs: Tree, state: Tree) -> tuple[Tensor, Tree]:
        """A step of the cell.

        Raises:
            ShapeError: if input and output differ in width, without a `residual_fn`.
        """
        output, new = self.cell(inputs, state)
        return self.residual_fn(inputs, output), new


def _sum(inputs: Tensor, output: Tensor) -> Tensor:
    if not isinstance(inputs, Tensor) or inputs.shape != output.shape:
        shape = tuple(inputs.shape) if isinstance(inputs, Tensor) else type(inputs).__name__
        raise ShapeError(
            f"A residual connection adds input and output: {shape} and {tuple(output.shape)} must be equal. Give a "
            "cell with as many units as inputs, or residual_fn."
        )
    return inputs + output


class AbstractProjectionWrapper(AbstractCellWrapper):
    """A cell with a linear layer, `projection`, whose arrays are directly in the wrapper's scope."""

    projection: Dense

    def array_names(self) -> list[str]:
        return [f"projection/{name}" for name in self.projection.array_names()] + super().array_names()

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        scopes = ("projection", "output_projection_wrapper", "input_projection_wrapper")
        own = arrays.part(lambda array: base_of(array.path[-2:][0]) in scopes, self.projection)
        return prefixed("projection", self.projection.take(own)) | super().take(arrays)


class OutputProjectionWrapper(AbstractProjectionWrapper):
    """A cell with a linear layer with bias, `projection`, after its output.

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
    """A cell with a linear layer with bias, `projection`, before its input.

    Args:
        num_proj: the width of the cell's input.
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
