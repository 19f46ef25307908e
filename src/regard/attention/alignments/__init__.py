"""Turning energies, and the weights of earlier steps, into weights (R, H, S)."""

from regard.attention.alignments.chunkwise import ChunkwiseAlignment
from regard.attention.alignments.exponential import ExponentialAlignment
from regard.attention.alignments.forward import ForwardAlignment
from regard.attention.alignments.hardmax import HardmaxAlignment
from regard.attention.alignments.monotonic import MonotonicAlignment
from regard.attention.alignments.named import alignment_named
from regard.attention.alignments.sigmoid import SigmoidAlignment
from regard.attention.alignments.softmax import SoftmaxAlignment
from regard.attention.alignments.sparse import EntmaxAlignment, SparsemaxAlignment
from regard.attention.alignments.stepwise import StepwiseAlignment
from regard.attention.alignments.stochastic import Choice, StochasticAlignment
from regard.attention.alignments.transition import TransitionAgent

__all__ = [
    "Choice",
    "ChunkwiseAlignment",
    "EntmaxAlignment",
    "ExponentialAlignment",
    "ForwardAlignment",
    "HardmaxAlignment",
    "MonotonicAlignment",
    "SigmoidAlignment",
    "SoftmaxAlignment",
    "SparsemaxAlignment",
    "StepwiseAlignment",
    "StochasticAlignment",
    "TransitionAgent",
    "alignment_named",
]
