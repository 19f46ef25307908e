"""The largest entries of rows, the same ones every time."""

from regard.ops.largest.operation import LARGEST, largest

__all__ = ["LARGEST", "largest"]
