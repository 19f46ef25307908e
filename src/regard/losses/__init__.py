"""Losses of outputs and alignments."""

from regard.losses.alignments import (
    alignment_consistency,
    alignment_supervision,
    attention_entropy,
    coverage_loss,
    doubly_stochastic,
    forward_sum,
    guided_attention,
)
from regard.losses.distillation import distillation
from regard.losses.reinforce import MovingBaseline, reinforce
from regard.losses.values import (
    absolute_error,
    low_frequency_error,
    pinball_loss,
    squared_error,
    stop_loss,
    structural_dissimilarity,
)
from regard.ops.linear_cross_entropy import cross_entropy

__all__ = [
    "MovingBaseline",
    "absolute_error",
    "alignment_consistency",
    "alignment_supervision",
    "attention_entropy",
    "coverage_loss",
    "cross_entropy",
    "distillation",
    "doubly_stochastic",
    "forward_sum",
    "guided_attention",
    "low_frequency_error",
    "pinball_loss",
    "reinforce",
    "squared_error",
    "stop_loss",
    "structural_dissimilarity",
]
