"""Monotonic attention with infinite look back."""

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
    """A monotonic reader with a soft look back over all that it has passed: `mocha` without a limit to the chunk.

    β_ij = Σ_{k ≥ j} α_ik exp(u_ij) / Σ_{l ≤ k} exp(u_il).

    Args:
        query_size, memory_size: Q and M.
        size: width of each score's hidden layer.
        bias, noise, hard, remaining: the reader's, as in `monotonic`. What is left stops at the `last` position, so
            that a translator that has read everything attends to all of it.
        num_heads: each reads by itself; the reads stand side by side.
        window: where it may look.

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
