"""Monotonic attention."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments import MonotonicAlignment
from regard.attention.alignments.reader import Hard, Remaining
from regard.attention.contract import AbstractScore, AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import AdditiveScore, BilinearScore, DotScore
from regard.errors import UnsupportedError


@imitable
def monotonic(
    *,
    query_size: int,
    memory_size: int,
    score: Literal["additive", "dot", "general"] = "additive",
    size: int | None = None,
    normalised: bool = True,
    learned_scale: bool = True,
    num_heads: int = 1,
    bias: float = -1.0,
    learned_bias: bool = True,
    noise: float = 0.0,
    hard: Hard = "never",
    remaining: Remaining = "lost",
    like: Literal["tfa_parallel"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """A reader that never goes back: from where it stopped before, it stops at j with probability p_ij = σ(e_ij + r).

    α_ij = p_ij q_ij with q_ij = (1 - p_i,j-1) q_i,j-1 + α_i-1,j is the expected stop.

    Args:
        query_size, memory_size: Q and M; equal for `dot`.
        score: additive (tf.contrib.seq2seq's BahdanauMonotonicAttention), general (its LuongMonotonicAttention: qᵀ W h)
            or dot.
        size: width of the additive score's hidden layer; 128 if None. The others have none.
        normalised: weight normalisation of the additive score, with a bias, which keeps energies in the range of σ.
        learned_scale: whether dot and general are multiplied by a learned number, initially 1.
        num_heads: each head reads by itself; the contexts are concatenated.
        bias, learned_bias: the initial value of r, and whether it is learned.
        noise: the standard deviation of normal noise on the energies in training; 1 prepares for `hard`.
        hard: when the reader stops at the first p > 1/2: never, in evaluation or always.
        remaining: the probability of passing all positions is `lost`, or is given to the `last` position.
        like: another implementation (`regard.attention.peers`); tensorflow-addons' mode `recursive` is None.
        window: which positions may be attended to; all if None.

    Source: Raffel et al. 2017, Online and Linear-Time Attention by Enforcing Monotonic Alignments (arXiv 1704.00784).
    """
    scoring: AbstractScore
    if score == "additive":
        scoring = AdditiveScore(
            query_size, memory_size, 128 if size is None else size, num_heads=num_heads, normalised=normalised
        )
    elif size is not None:
        raise UnsupportedError(f"size={size} is the width of additive's hidden layer; score={score!r} has none.")
    elif score == "dot":
        scoring = DotScore(query_size, memory_size, num_heads=num_heads, scale=None if learned_scale else 1.0)
    elif score == "general":
        scoring = BilinearScore(query_size, memory_size, num_heads=num_heads, scale=None if learned_scale else 1.0)
    else:
        raise UnsupportedError(f"score={score!r} must be 'additive', 'dot' or 'general'.")
    return Mechanism(
        scoring,
        MonotonicAlignment(
            num_heads=num_heads,
            bias=bias,
            learned_bias=learned_bias,
            noise=noise,
            hard=hard,
            remaining=remaining,
        ),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
