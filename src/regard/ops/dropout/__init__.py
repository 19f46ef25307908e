"""Dropout with a mask that belongs to the item: whatever stands beside it, wherever it is computed."""

from regard.ops.dropout.operation import DROPOUT, dropout, dropout_mask

__all__ = ["DROPOUT", "dropout", "dropout_mask"]
