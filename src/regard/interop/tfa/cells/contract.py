"""The interface of cells: the calls of `tf.nn.rnn_cell.RNNCell` and of Keras' cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.errors import ShapeError, UnsupportedError
from regard.interop.tfa.layers.deferred import DeferredModule, Type, checked_width, first_weight, tensors, type_of
from regard.interop.tfa.layers.originals import FromTensorflow, Pool, parts_of, prefixed
from regard.shapes import Float, describe


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM of TensorFlow 1: c, then h, each (R, D). Keras' and torch's have h first."""

    c: Any
    h: Any


class RNNCell(nn.Module):
    """A recurrent cell: `forward(inputs, state) -> (output, new_state)`.

    A subclass defines `forward`, `state_size`, a number of features or a tree of them, and `output_size`.
    """

    @property
    def state_size(self) -> Any:
        """The numbers of features of the state, a tree of the state's structure."""
        raise NotImplementedError(f"{type(self).__name__} must define state_size.")

    @property
    def output_size(self) -> int:
        """The number of features of the output."""
        raise NotImplementedError(f"{type(self).__name__} must define output_size.")

    def forward(self, inputs: Tree, state: Tree) -> tuple[Tensor, Tree]:
        """Output (R, D) and the state after the step."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(inputs, state).")

    def get_initial_state(self, inputs: Tree = None, batch_size: int | None = None, dtype: Type = None) -> Tree:
        """A state of zeros.

        Args:
            inputs: with the rows, type and device of the state.
            batch_size: R, if there are no inputs.
            dtype: of the state; that of the weights if there are no inputs.

        Raises:
            ShapeError: with neither inputs nor batch_size.
        """
        like = next(tree.leaves(tensors(inputs, self)), None)
        if like is not None:
            return _zeros(self.state_size, like.shape[0], like if like.is_floating_point() else like.float())
        if batch_size is None:
            raise ShapeError("Give inputs or batch_size, the number of rows of the state.")
        like = first_weight(self)
        return _zeros(self.state_size, int(batch_size), like.new_empty(0, dtype=type_of(dtype) or like.dtype))

    def zero_state(self, batch_size: int, dtype: Type = None) -> Tree:
        """A state of zeros with R rows; the method of TensorFlow 1."""
        return self.get_initial_state(batch_size=batch_size, dtype=dtype)


class DeferredCell(RNNCell, DeferredModule):
    """A cell whose weights are made when the number of its inputs is known.

    Args:
        units: D.
        input_size: F; from the first call if None.
        dtype: of the weights; that of the inputs if None.
        name: without effect.
    """

    num_gates = 1

    def __init__(
        self, units: int, *, input_size: int | None = None, dtype: Type = None, name: str | None = None
    ) -> None:
        super().__init__()
        self.units, self.name = checked_width("units", units), name
        self.dtype = type_of(dtype)
        self.input_size: int | None = None

    @property
    def built(self) -> bool:
        return self.input_size is not None

    @property
    def state_size(self) -> Any:
        return self.units

    @property
    def output_size(self) -> int:
        return self.units

    def sizes_in(self, weights: Mapping[str, Tensor]) -> Mapping[str, int] | None:
        return {"input_size": weights["weight_ih"].shape[1]} if "weight_ih" in weights else None

    def _check(self, inputs: Float[Tensor, "R F"], *state: Any) -> None:
        """Makes missing weights, and refuses inputs of another width and states with tensors that are not (R, D)."""
        if not isinstance(inputs, Tensor):
            raise ShapeError(
                f"{type(self).__name__} takes a tensor (R, F); got {type(inputs).__name__}. Use torch.as_tensor."
            )
        if not self.built:
            self.build(inputs.shape[-1], like=inputs)
        if inputs.dim() != 2 or inputs.shape[1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__} was built for inputs (R, F={self.input_size}).\n"
                + describe({"inputs": ("R F", inputs)})
            )
        shape = (len(inputs), self.units)
        for part in state:
            if not isinstance(part, Tensor) or part.shape != shape:
                got = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
                raise ShapeError(
                    f"The state of {type(self).__name__} must be (R={shape[0]}, D={shape[1]}), with the rows of the "
                    f"inputs; got {got}. Begin with zero_state, or an encoder's last state of this size."
                )


class TorchCell(RNNCell):
    """One of torch's cells: `nn.LSTMCell`, whose state is (h, c), `nn.GRUCell` or `nn.RNNCell`, whose state is h."""

    def __init__(self, cell: nn.LSTMCell | nn.GRUCell | nn.RNNCell) -> None:
        super().__init__()
        self.cell = cell

    @property
    def state_size(self) -> Any:
        """D, or (D, D) of an LSTM."""
        size = self.cell.hidden_size
        return (size, size) if isinstance(self.cell, nn.LSTMCell) else size

    @property
    def output_size(self) -> int:
        return self.cell.hidden_size

    def forward(self, inputs: Float[Tensor, "R F"], state: Tree) -> tuple[Float[Tensor, "R D"], Tree]:
        check_order(self.state_size, state, f"The state of {type(self.cell).__name__}")
        new = self.cell(inputs, state)
        return (new[0], new) if isinstance(self.cell, nn.LSTMCell) else (new, new)


class AbstractCellWrapper(FromTensorflow, RNNCell):
    """A cell around a cell, with the same state."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = as_cell(cell)

    @property
    def state_size(self) -> Any:
        return self.cell.state_size

    @property
    def output_size(self) -> int:
        size: int = self.cell.output_size
        return size

    def array_names(self) -> list[str]:
        return parts_of(self.cell, "cell").array_names()

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        return prefixed("cell", parts_of(self.cell, "cell").take(arrays))

    def get_initial_state(self, inputs: Tree = None, batch_size: int | None = None, dtype: Type = None) -> Tree:
        like = next(tree.leaves(inputs), None)
        if like is None and batch_size is not None:
            return initial_state(self.cell, batch_size, dtype)
        return super().get_initial_state(inputs, batch_size, dtype)


def as_cell(cell: Any, name: str = "cell") -> Any:
    """The cell, if it has the calls of one; torch's cells in a `TorchCell`.

    Raises:
        UnsupportedError: for anything else.
    """
    if isinstance(cell, (nn.LSTMCell, nn.GRUCell, nn.RNNCell)):
        return TorchCell(cell)
    calls = hasattr(type(cell), "state_size") and hasattr(type(cell), "output_size")
    if callable(cell) and (isinstance(cell, RNNCell) or calls or hasattr(cell, "state_size")):
        return cell
    raise UnsupportedError(
        f"{name} must be a cell, which has state_size, output_size and a call (inputs, state) -> (output, new_state); "
        f"got {type(cell).__name__}. Subclass RNNCell, or give one of torch's cells (nn.LSTMCell, nn.GRUCell)."
    )


def is_named_state(state: Any) -> bool:
    """Whether a state, or its sizes, is an `LSTMStateTuple`, ours or TensorFlow's."""
    return getattr(state, "_fields", None) == LSTMStateTuple._fields


def check_order(sizes: Any, state: Any, name: str) -> None:
    """Refuses an unnamed pair for a cell whose state has c first, and a named one for a cell with h first.

    Args:
        sizes: the cell's `state_size`.
        name: of the state, for errors.
    """
    if not isinstance(sizes, (tuple, list)) or not isinstance(state, (tuple, list)) or len(sizes) != len(state):
        return
    if is_named_state(sizes) and not is_named_state(state):
        raise ShapeError(
            f"{name} is a {type(state).__name__} of 2 without names: TensorFlow 1's LSTM has c first, Keras' and "
            "torch's have h. Give LSTMStateTuple(c=…, h=…)."
        )
    if is_named_state(state) and not is_named_state(sizes):
        raise ShapeError(
            f"{name} is a {type(state).__name__}(c, h), but this cell's state has h first, as Keras' and torch's. Give "
            "(state.h, state.c)."
        )
    if not is_named_state(sizes):
        for number, (size, part) in enumerate(zip(sizes, state, strict=True)):
            check_order(size, part, f"{name}[{number}]")


def initial_state(cell: Any, batch_size: int, dtype: Type = None) -> Tree:
    """The first state of a cell, by `get_initial_state` or `zero_state` if it has them; zeros otherwise."""
    if hasattr(cell, "get_initial_state"):
        return with_tuples(cell.get_initial_state(batch_size=batch_size, dtype=dtype))
    if hasattr(cell, "zero_state"):
        return with_tuples(cell.zero_state(batch_size, dtype))
    return _zeros(cell.state_size, batch_size, torch.empty(0, dtype=type_of(dtype)))


def with_tuples(state: Any) -> Tree:
    """A state with tuples instead of lists, and tensors instead of NumPy's arrays, which trees do not have."""
    if isinstance(state, (list, tuple)):
        parts = [with_tuples(part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    if isinstance(state, dict):
        return {name: with_tuples(part) for name, part in state.items()}
    return state if isinstance(state, Tensor) or not hasattr(state, "__array__") else tensors(state)


def _zeros(size: Any, rows: int, like: Tensor) -> Tree:
    if isinstance(size, (list, tuple)):
        parts = [_zeros(part, rows, like) for part in size]
        return type(size)(*parts) if hasattr(size, "_fields") else tuple(parts)
    return like.new_zeros(rows, int(size))
