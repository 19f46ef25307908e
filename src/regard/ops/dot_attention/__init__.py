"""Attention of many queries by dot products, from queries, keys and values to what is read."""

from regard.ops.dot_attention.operation import DOT_ATTENTION, dot_attention

__all__ = ["DOT_ATTENTION", "dot_attention"]
