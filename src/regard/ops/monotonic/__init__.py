"""Expected alignments of monotonic attention."""

from regard.ops.monotonic.reference import expected_monotonic_alignment, moving_chunk_softmax

__all__ = ["expected_monotonic_alignment", "moving_chunk_softmax"]
