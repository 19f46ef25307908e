"""An output layer and the cross-entropy of its predictions, as one operation."""

from regard.ops.linear_cross_entropy.operation import LINEAR_CROSS_ENTROPY, linear_cross_entropy

__all__ = ["LINEAR_CROSS_ENTROPY", "linear_cross_entropy"]
