"""The alignment of forward attention: weights that stay or move on by one position."""

from regard.ops.forward.reference import forward_alignment

__all__ = ["forward_alignment"]
