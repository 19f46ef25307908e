"""Stepwise monotonic attention."""

from __future__ import annotations

from regard.attention.alignments import StepwiseAlignment
from regard.attention.alignments.reader import Hard, Remaining
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore


def stepwise_monotonic(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    num_heads: int = 1,
    bias: float = 3.5,
    noise: float = 2.0,
    hard: Hard = "never",
    remaining: Remaining = "last",
    window: AbstractWindow | None = None,
) -> Mechanism:
    """A reader that stays or moves on by one in every step: α_ij = p_ij α_{i-1,j} + (1 - p_{i,j-1}) α_{i-1,j-1}.

    For outputs that are longer than their source, such as frames of speech: every position is read, in order.

    Args:
        query_size, memory_size: Q and M.
        size: width of the score's hidden layer.
        num_heads: each head reads by itself; the contexts are concatenated.
        bias, noise, hard, remaining: as in `StepwiseAlignment`.
        window: which positions may be attended to; all if None.

    Source: He, Deng & He 2019, Robust Sequence-to-Sequence Acoustic Modeling with Stepwise Monotonic Attention for
    Neural TTS (arXiv 1906.00672).
    """
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, num_heads=num_heads, normalised=True),
        StepwiseAlignment(num_heads=num_heads, bias=bias, noise=noise, hard=hard, remaining=remaining),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
