"""Logarithms of probabilities that may be zero."""

from regard.ops.logarithm.reference import log_add, safe_log, widen

__all__ = ["log_add", "safe_log", "widen"]
