"""`tfa.seq2seq` of tensorflow-addons 0.23, and `tf.contrib.seq2seq` and `tf.nn` of TensorFlow 1 as used with it, on
tensors of torch: the same names, the same arguments in the same order, the same numbers.

Cells are those of TensorFlow 1 by their own names, and Keras' with that word before it. Sizes of inputs may be left
out, as there: a module then makes its weights in its first call, when a state dict is loaded, or as soon as it can
learn the sizes from the memory and the cell, and an optimiser is made after that. Give `input_size` (`query_size` and
`memory_size` of mechanisms) to have them at once.
"""

from regard.compat.tfa.bahdanau import BahdanauAttention, BahdanauMonotonicAttention
from regard.compat.tfa.cell import LSTMStateTuple, RNNCell, TorchCell
from regard.compat.tfa.cell_wrappers import (
    DropoutWrapper,
    InputProjectionWrapper,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
)
from regard.compat.tfa.cells import BasicLSTMCell, BasicRNNCell, GRUCell, KerasGRUCell, KerasLSTMCell, LSTMCell
from regard.compat.tfa.dense import Dense
from regard.compat.tfa.functions import hardmax, monotonic_attention, safe_cumprod
from regard.compat.tfa.luong import LuongAttention, LuongMonotonicAttention
from regard.compat.tfa.mechanism import AttentionMechanism
from regard.compat.tfa.state import AlignmentHistory, AttentionWrapperState
from regard.compat.tfa.unrolling import bidirectional_dynamic_rnn, dynamic_rnn, reverse_sequence
from regard.compat.tfa.wrapper import AttentionWrapper, compute_attention

StackedRNNCells = MultiRNNCell
"""Keras' name of `MultiRNNCell`."""

__all__ = [
    "AlignmentHistory",
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "BahdanauMonotonicAttention",
    "BasicLSTMCell",
    "BasicRNNCell",
    "Dense",
    "DropoutWrapper",
    "GRUCell",
    "InputProjectionWrapper",
    "KerasGRUCell",
    "KerasLSTMCell",
    "LSTMCell",
    "LSTMStateTuple",
    "LuongAttention",
    "LuongMonotonicAttention",
    "MultiRNNCell",
    "OutputProjectionWrapper",
    "RNNCell",
    "ResidualWrapper",
    "StackedRNNCells",
    "TorchCell",
    "bidirectional_dynamic_rnn",
    "compute_attention",
    "dynamic_rnn",
    "hardmax",
    "monotonic_attention",
    "reverse_sequence",
    "safe_cumprod",
]
