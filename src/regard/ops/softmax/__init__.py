"""Softmax over the positions that may be looked at."""

from regard.ops.softmax.operation import MASKED_SOFTMAX, masked_softmax

__all__ = ["MASKED_SOFTMAX", "masked_softmax"]
