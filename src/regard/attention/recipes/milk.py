"""Monotonic attention with infinite lookback."""

from __future__ import annotations

from regard.attention.alignments.reader import Hard, Remaining
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.recipes.mocha import mocha


def milk(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    bias: float = -1.0,
    noise: float = 0.0,
    hard: Hard = "never",
    remaining: Remaining = "last",
    num_heads: int = 1,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """A monotonic reader, and a softmax over all positions up to where it stops: `mocha` with an unlimited chunk.

    β_ij = Σ_{k ≥ j} α_ik exp(u_ij) / Σ_{l ≤ k} exp(u_il).

    Args:
        query_size, memory_size: Q and M.
        size: width of each score's hidden layer.
        bias, noise, hard, remaining: the reader's, as in `monotonic`. With `last` a translator that has read the
            whole source attends to all of it.
        num_heads: each head reads by itself; the contexts are concatenated.
        window: which positions may be attended to; all if None.

    Source: Arivazhagan et al. 2019, Monotonic Infinite Lookback Attention for Simultaneous Machine Translation
    (arXiv 1906.05218).
    """
    return mocha(
        query_size=query_size,
        memory_size=memory_size,
        size=size,
        chunk_size=None,
        bias=bias,
        noise=noise,
        hard=hard,
        remaining=remaining,
        num_heads=num_heads,
        window=window,
    )
