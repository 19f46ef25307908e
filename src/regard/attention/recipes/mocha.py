"""Monotonic chunkwise attention."""

from __future__ import annotations

from regard.attention.alignments import ChunkwiseAlignment
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore


def mocha(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    chunk_size: int = 4,
    bias: float = -1.0,
    num_heads: int = 1,
) -> Mechanism:
    """A monotonic reader with a soft look back over a chunk, in expectation (the form that is trained).

    Source: Chiu & Raffel 2018, Monotonic Chunkwise Attention (arXiv 1712.05382).
    """
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, num_heads=num_heads, normalised=True),
        ChunkwiseAlignment(
            AdditiveScore(query_size, memory_size, size, num_heads=num_heads), chunk_size=chunk_size, bias=bias
        ),
        WeightedSum(memory_size, num_heads=num_heads),
    )
