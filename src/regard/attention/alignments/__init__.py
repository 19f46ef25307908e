"""Alignments: from energies, and the weights of earlier steps, to weights (R, H, S)."""

from regard.attention.alignments.forward import ForwardAlignment, TransitionAgent
from regard.attention.alignments.monotonic import ChunkwiseAlignment, MonotonicAlignment, StepwiseAlignment
from regard.attention.alignments.normalisers import (
    EntmaxAlignment,
    ExponentialAlignment,
    HardmaxAlignment,
    SigmoidAlignment,
    SoftmaxAlignment,
    SparsemaxAlignment,
    alignment_named,
)
from regard.attention.alignments.stochastic import Choice, StochasticAlignment

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
