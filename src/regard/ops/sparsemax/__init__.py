"""The nearest distribution: max(e - τ, 0)."""

from regard.ops.sparsemax.reference import sparsemax

__all__ = ["sparsemax"]
