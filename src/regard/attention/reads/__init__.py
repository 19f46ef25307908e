"""Turning weights and values into a context (R, V)."""

from regard.attention.reads.dropped import DroppedRead
from regard.attention.reads.gated import GatedSum
from regard.attention.reads.relative import RelativeSum
from regard.attention.reads.weighted_sum import ProjectedSum, WeightedSum

__all__ = ["DroppedRead", "GatedSum", "ProjectedSum", "RelativeSum", "WeightedSum"]
