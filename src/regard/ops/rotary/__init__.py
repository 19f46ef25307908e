"""Rotary positions: features that turn with their position."""

from regard.ops.rotary.reference import rotate

__all__ = ["rotate"]
