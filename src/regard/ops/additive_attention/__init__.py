"""Additive attention of many queries, from queries, keys and values to what is read."""

from regard.ops.additive_attention.operation import ADDITIVE_ATTENTION, additive_attention

__all__ = ["ADDITIVE_ATTENTION", "additive_attention"]
