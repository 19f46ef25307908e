"""Softmax over the positions that may be looked at."""

from regard.ops.softmax.reference import masked_softmax

__all__ = ["masked_softmax"]
