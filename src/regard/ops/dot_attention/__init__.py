"""Attention by dot products, of all queries of a sequence: from queries, keys and values to contexts."""

from regard.ops.dot_attention.operation import DOT_ATTENTION, dot_attention

__all__ = ["DOT_ATTENTION", "dot_attention"]
