"""Weights and values become a context (R, V)."""

from regard.attention.reads.weighted_sum import ProjectedSum, WeightedSum

__all__ = ["ProjectedSum", "WeightedSum"]
