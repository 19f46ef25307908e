"""Monotonic chunkwise attention."""

from __future__ import annotations

from regard.attention.alignments import ChunkwiseAlignment, MonotonicAlignment
from regard.attention.alignments.reader import Hard, Remaining
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore


def mocha(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    chunk_size: int | None = 4,
    bias: float = -1.0,
    noise: float = 0.0,
    hard: Hard = "never",
    remaining: Remaining = "lost",
    num_heads: int = 1,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """A monotonic reader, and a softmax over the chunk of w positions that ends where it stops.

    β_ij = Σ_{k=j}^{j+w-1} α_ik exp(u_ij) / Σ_{l=k-w+1}^{k} exp(u_il), α as in `monotonic`, e and u additive.

    Args:
        query_size, memory_size: Q and M.
        size: width of each score's hidden layer.
        chunk_size: w; 1 is monotonic attention, None lets the chunk begin at the first position (`milk`).
        bias, noise, hard, remaining: the reader's, as in `monotonic`.
        num_heads: each head reads by itself; the contexts are concatenated.
        window: which positions may be attended to; all if None.

    Source: Chiu & Raffel 2018, Monotonic Chunkwise Attention (arXiv 1712.05382).
    """
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, num_heads=num_heads, normalised=True),
        ChunkwiseAlignment(
            AdditiveScore(query_size, memory_size, size, num_heads=num_heads),
            chunk_size=chunk_size,
            reader=MonotonicAlignment(num_heads=num_heads, bias=bias, noise=noise, hard=hard, remaining=remaining),
        ),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
