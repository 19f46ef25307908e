"""`tfa.seq2seq` of tensorflow-addons 0.23, and `tf.contrib.seq2seq` and `tf.nn` of TensorFlow 1 as used with it, on
tensors of torch: the same names, the same arguments in the same order, the same results.

Cells of TensorFlow 1 have their names, those of Keras the prefix Keras. Sizes of inputs may be omitted, as in the
originals: weights then get their values in the first call, when a state dict is loaded, or as soon as memory and cell
determine the sizes. They are parameters from the beginning, so an optimiser may be made before that (torch's, except
Adagrad and Muon, which read shapes at once and raise an error). With `input_size` (`query_size` and `memory_size` of
mechanisms) they have values at once.
"""

from regard.interop.tfa.cells.contract import LSTMStateTuple, RNNCell, TorchCell
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
from regard.interop.tfa.decoders.basic import BasicDecoder, BasicDecoderOutput
from regard.interop.tfa.decoders.beam_search import (
    BeamSearchDecoder,
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    FinalBeamSearchDecoderOutput,
)
from regard.interop.tfa.decoders.beams import gather_tree, gather_tree_from_array, tile_batch
from regard.interop.tfa.decoders.loop import BaseDecoder, Decoder, dynamic_decode
from regard.interop.tfa.keras import Bidirectional, KerasGRU, KerasLSTM, KerasRNN
from regard.interop.tfa.layers.dense import Dense
from regard.interop.tfa.layers.embedding import Embedding
from regard.interop.tfa.loss import SequenceLoss, sequence_loss
from regard.interop.tfa.mechanisms.bahdanau import BahdanauAttention, BahdanauMonotonicAttention
from regard.interop.tfa.mechanisms.contract import AttentionMechanism
from regard.interop.tfa.mechanisms.functions import hardmax, monotonic_attention, safe_cumprod
from regard.interop.tfa.mechanisms.luong import LuongAttention, LuongMonotonicAttention
from regard.interop.tfa.samplers.contract import Sampler
from regard.interop.tfa.samplers.contrib import (
    CustomHelper,
    GreedyEmbeddingHelper,
    GumbelSoftmaxEmbeddingHelper,
    Helper,
    InferenceHelper,
    SampleEmbeddingHelper,
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
    SoftmaxEmbeddingHelper,
    TopKSampleEmbeddingHelper,
    TopPSampleEmbeddingHelper,
    TrainingHelper,
)
from regard.interop.tfa.samplers.custom import CustomSampler, InferenceSampler
from regard.interop.tfa.samplers.embedding import (
    GreedyEmbeddingSampler,
    GumbelSoftmaxEmbeddingSampler,
    SampleEmbeddingSampler,
    SoftmaxEmbeddingSampler,
    TopKSampleEmbeddingSampler,
    TopPSampleEmbeddingSampler,
)
from regard.interop.tfa.samplers.tacotron import TacoTestHelper, TacoTrainingHelper
from regard.interop.tfa.samplers.training import (
    ScheduledEmbeddingTrainingSampler,
    ScheduledOutputTrainingSampler,
    TrainingSampler,
)
from regard.interop.tfa.state import AlignmentHistory, AttentionWrapperState
from regard.interop.tfa.structure import TensorArray, flatten, map_structure
from regard.interop.tfa.unrolling import bidirectional_dynamic_rnn, dynamic_rnn, reverse_sequence
from regard.interop.tfa.wrapper import AttentionWrapper, compute_attention

StackedRNNCells = MultiRNNCell
"""Keras' name of `MultiRNNCell`."""

__all__ = [
    "AlignmentHistory",
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "BahdanauMonotonicAttention",
    "BaseDecoder",
    "BasicDecoder",
    "BasicDecoderOutput",
    "BasicLSTMCell",
    "BasicRNNCell",
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "Bidirectional",
    "CustomHelper",
    "CustomSampler",
    "Decoder",
    "Dense",
    "DropoutWrapper",
    "Embedding",
    "FinalBeamSearchDecoderOutput",
    "GRUCell",
    "GreedyEmbeddingHelper",
    "GreedyEmbeddingSampler",
    "GumbelSoftmaxEmbeddingHelper",
    "GumbelSoftmaxEmbeddingSampler",
    "Helper",
    "InferenceHelper",
    "InferenceSampler",
    "InputProjectionWrapper",
    "KerasGRU",
    "KerasGRUCell",
    "KerasLSTM",
    "KerasLSTMCell",
    "KerasRNN",
    "LSTMCell",
    "LSTMStateTuple",
    "LuongAttention",
    "LuongMonotonicAttention",
    "MultiRNNCell",
    "OutputProjectionWrapper",
    "RNNCell",
    "ResidualWrapper",
    "SampleEmbeddingHelper",
    "SampleEmbeddingSampler",
    "Sampler",
    "ScheduledEmbeddingTrainingHelper",
    "ScheduledEmbeddingTrainingSampler",
    "ScheduledOutputTrainingHelper",
    "ScheduledOutputTrainingSampler",
    "SequenceLoss",
    "SoftmaxEmbeddingHelper",
    "SoftmaxEmbeddingSampler",
    "StackedRNNCells",
    "TacoTestHelper",
    "TacoTrainingHelper",
    "TensorArray",
    "TopKSampleEmbeddingHelper",
    "TopKSampleEmbeddingSampler",
    "TopPSampleEmbeddingHelper",
    "TopPSampleEmbeddingSampler",
    "TorchCell",
    "TrainingHelper",
    "TrainingSampler",
    "bidirectional_dynamic_rnn",
    "compute_attention",
    "dynamic_decode",
    "dynamic_rnn",
    "flatten",
    "gather_tree",
    "gather_tree_from_array",
    "hardmax",
    "map_structure",
    "monotonic_attention",
    "reverse_sequence",
    "safe_cumprod",
    "sequence_loss",
    "tile_batch",
]
