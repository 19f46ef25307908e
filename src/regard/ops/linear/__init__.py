"""Products with a weight matrix."""

from regard.ops.linear.operation import LINEAR, Product, linear, outer

__all__ = ["LINEAR", "Product", "linear", "outer"]
