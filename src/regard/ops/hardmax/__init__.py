"""All of the weight at the largest energy."""

from regard.ops.hardmax.reference import hardmax

__all__ = ["hardmax"]
