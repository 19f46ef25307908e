"""Alignments of monotonic attention: expected, hard, and with a softmax over the chunk before each stop."""

from regard.ops.monotonic.chunk import MOVING_CHUNK_SOFTMAX, moving_chunk_softmax
from regard.ops.monotonic.clipped import clipped_monotonic_alignment
from regard.ops.monotonic.expected import (
    EXPECTED_MONOTONIC_ALIGNMENT,
    expected_monotonic_alignment,
    hard_monotonic_alignment,
)

__all__ = [
    "EXPECTED_MONOTONIC_ALIGNMENT",
    "MOVING_CHUNK_SOFTMAX",
    "clipped_monotonic_alignment",
    "expected_monotonic_alignment",
    "hard_monotonic_alignment",
    "moving_chunk_softmax",
]
