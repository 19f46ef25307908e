"""Weights and values become a context (R, V)."""

from regard.attention.reads.relative import RelativeSum
from regard.attention.reads.weighted_sum import ProjectedSum, WeightedSum

__all__ = ["ProjectedSum", "RelativeSum", "WeightedSum"]
