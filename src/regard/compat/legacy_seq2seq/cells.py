"""What the decoders of this package ask of a recurrent cell: its sizes, its step and its first state."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.errors import UnsupportedError
from regard.shapes import Float


def output_width(cell: Any) -> int:
    """The width of a cell's output.

    Raises:
        UnsupportedError: for a module that is no cell.
    """
    if isinstance(cell, nn.RNNCellBase):
        return cell.hidden_size
    size = getattr(cell, "output_size", None)
    if not isinstance(size, int) or not hasattr(cell, "state_size"):
        raise UnsupportedError(
            "cell must be a cell of torch (nn.LSTMCell, nn.GRUCell, nn.RNNCell) or of regard.compat.tfa, or a module "
            f"with output_size, state_size and forward(inputs, state) -> (output, state); got {type(cell).__name__}."
        )
    return size


def state_width(cell: Any) -> int:
    """The features of all tensors of a cell's state together, after which the query of attention is sized."""
    if isinstance(cell, nn.RNNCellBase):
        return cell.hidden_size * (2 if isinstance(cell, nn.LSTMCell) else 1)
    return _total(cell.state_size)


def _total(size: Any) -> int:
    return sum(map(_total, size)) if isinstance(size, (tuple, list)) else int(size)


def flatten(state: Any) -> list[Tensor]:
    """The tensors of a state, in order: of an LSTM of TensorFlow c and h, of `nn.LSTMCell` h and c."""
    if isinstance(state, Tensor):
        return [state]
    return [leaf for part in state for leaf in flatten(part)]


def step(cell: Any, x: Float[Tensor, "B I"], state: Any) -> tuple[Float[Tensor, "B D"], Any]:
    """One step: the output and the new state."""
    if not isinstance(cell, nn.RNNCellBase):
        output, state = cell(x, state)
        return output, state
    state = cell(x, state)
    return (state[0] if isinstance(cell, nn.LSTMCell) else state), state


def zero_state(cell: Any, like: Float[Tensor, "B ..."]) -> Any:
    """The state before the first step: zeros for as many rows as `like` has, in its type."""
    if not isinstance(cell, nn.RNNCellBase):
        return cell.zero_state(len(like), like.dtype)
    zeros = like.new_zeros(len(like), cell.hidden_size)
    return (zeros, zeros) if isinstance(cell, nn.LSTMCell) else zeros


class ProjectedCell(nn.Module):
    """A cell whose outputs pass through a linear layer, as TensorFlow's OutputProjectionWrapper has it.

    Args:
        cell: the cell; its state stays as it is.
        output_size: the width of the new outputs.
    """

    def __init__(self, cell: Any, output_size: int) -> None:
        super().__init__()
        self.cell = cell
        self.output_size = output_size
        self.projection = linear(output_width(cell), output_size)

    @property
    def state_size(self) -> int:
        """The features of the cell's state."""
        return state_width(self.cell)

    def zero_state(self, batch_size: int, dtype: Any) -> Any:
        """The cell's state of zeros."""
        return zero_state(self.cell, self.projection.weight.new_zeros(batch_size, 0, dtype=dtype))

    def forward(self, inputs: Float[Tensor, "B I"], state: Any) -> tuple[Float[Tensor, "B O"], Any]:
        """One step: the projected output, the cell's new state."""
        output, state = step(self.cell, inputs, state)
        return self.projection(output), state


def linear(input_size: int, output_size: int) -> nn.Linear:
    """A layer W x + b with TensorFlow's first weights: Glorot-uniform, and a bias of zeros."""
    layer = nn.Linear(input_size, output_size)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
