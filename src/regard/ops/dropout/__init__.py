"""Dropout with a mask that belongs to the item: the same in any batch and on any device."""

from regard.ops.dropout.operation import DROPOUT, dropout, dropout_mask

__all__ = ["DROPOUT", "dropout", "dropout_mask"]
