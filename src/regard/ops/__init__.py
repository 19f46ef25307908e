"""Arithmetic on tensors, no modules: one folder an operation, its reference written for the eye."""

from regard.ops.additive import additive_energies
from regard.ops.monotonic import expected_monotonic_alignment, moving_chunk_softmax
from regard.ops.softmax import masked_softmax

__all__ = ["additive_energies", "expected_monotonic_alignment", "masked_softmax", "moving_chunk_softmax"]
