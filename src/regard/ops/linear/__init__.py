"""Products with a weight matrix."""

from regard.ops.linear.operation import LINEAR, Product, linear

__all__ = ["LINEAR", "Product", "linear"]
