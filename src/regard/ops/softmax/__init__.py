"""Softmax over a support: the positions that may be attended to."""

from regard.ops.softmax.operation import MASKED_SOFTMAX, masked_softmax

__all__ = ["MASKED_SOFTMAX", "masked_softmax"]
