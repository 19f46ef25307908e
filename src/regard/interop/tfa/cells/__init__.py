"""Cells of TensorFlow 1 and of Keras, and what is put around them."""

from regard.interop.tfa.cells.contract import (
    LSTMStateTuple,
    RNNCell,
    TorchCell,
    as_cell,
    check_order,
    initial_state,
    with_tuples,
)
from regard.interop.tfa.cells.gru import GRUCell, KerasGRUCell
from regard.interop.tfa.cells.lstm import BasicLSTMCell, KerasLSTMCell, LSTMCell
from regard.interop.tfa.cells.rnn import BasicRNNCell
from regard.interop.tfa.cells.wrappers import (
    DropoutWrapper,
    InputProjectionWrapper,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
)

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DropoutWrapper",
    "GRUCell",
    "InputProjectionWrapper",
    "KerasGRUCell",
    "KerasLSTMCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "OutputProjectionWrapper",
    "RNNCell",
    "ResidualWrapper",
    "TorchCell",
    "as_cell",
    "check_order",
    "initial_state",
    "with_tuples",
]
