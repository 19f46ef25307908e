"""Monotonic attention: readers and forward attention, which move through the source only forward."""

from __future__ import annotations

from typing import Any, Literal

from regard.attention.alignments import (
    ChunkwiseAlignment,
    ForwardAlignment,
    MonotonicAlignment,
    StepwiseAlignment,
    TransitionAgent,
)
from regard.attention.alignments.monotonic import Hard, Remaining
from regard.attention.contract import AbstractRead, AbstractScore, AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import AdditiveScore, BilinearScore, DotScore, LocationScore
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
    like: str | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """A reader that never goes back: from where it stopped before, it stops at j with probability p_ij = σ(e_ij + r).

    α_ij = p_ij q_ij with q_ij = (1 - p_i,j-1) q_i,j-1 + α_i-1,j is the expected stop.

    Args:
        query_size, memory_size: Q and M; equal for `dot`.
        score: additive (tf.contrib.seq2seq's BahdanauMonotonicAttention), general (its LuongMonotonicAttention: qᵀ W h)
            or dot.
        size: width of the additive score's hidden layer; 128 if None.
        normalised: weight normalisation of the additive score, with a bias, which keeps energies in the range of σ.
        learned_scale: whether dot and general are multiplied by a learned number, initially 1.
        num_heads: each head has its own reader; the contexts are concatenated.
        bias, learned_bias: the initial value of r, and whether it is learned.
        noise: the standard deviation of normal noise on the energies in training; 1 prepares for `hard`.
        hard: when the reader stops at the first p > 1/2: never, in evaluation or always.
        remaining: the probability of passing all positions is `lost`, or is added to the `last` position.
        like: another program (`regard.interop.variants`); tensorflow-addons' mode `recursive` is None.
        window: which positions may be attended to; all if None.

    Inputs longer than in training are rarely read at twice their length (`docs/lengths.md`).

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
            num_heads=num_heads, bias=bias, learned_bias=learned_bias, noise=noise, hard=hard, remaining=remaining
        ),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )


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
        chunk_size: w; 1 is monotonic attention; None for chunks that begin at the first position (`milk`).
        bias, noise, hard, remaining: the reader's, as in `monotonic`.
        num_heads: each head has its own reader; the contexts are concatenated.
        window: which positions may be attended to; all if None.

    Inputs longer than in training are rarely read at twice their length (`docs/lengths.md`).

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
        num_heads: each head has its own reader; the contexts are concatenated.
        window: which positions may be attended to; all if None.

    Inputs longer than in training are often read at twice their length, and not at four times it (`docs/lengths.md`).

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
        num_heads: each head has its own reader; the contexts are concatenated.
        bias, noise, hard, remaining: as in `StepwiseAlignment`.
        window: which positions may be attended to; all if None.

    Inputs longer than in training are read forwards at ten times their length if each symbol has one output
    (`docs/lengths.md`).

    Source: He, Deng & He 2019, Robust Sequence-to-Sequence Acoustic Modeling with Stepwise Monotonic Attention for
    Neural TTS (arXiv 1906.00672).
    """
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, num_heads=num_heads, normalised=True),
        StepwiseAlignment(num_heads=num_heads, bias=bias, noise=noise, hard=hard, remaining=remaining),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )


@imitable
def forward_attention(
    *,
    query_size: int,
    memory_size: int,
    input_size: int | None = None,
    size: int = 128,
    score: Literal["location", "additive"] = "location",
    num_filters: int | None = None,
    kernel_size: int | None = None,
    transition_agent: bool = False,
    agent_size: int | None = None,
    num_heads: int = 1,
    like: str | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Attention that stays or moves on by one position in every step.

    α_t(n) ∝ ((1 - u_{t-1}) α_{t-1}(n) + u_{t-1} α_{t-1}(n-1)) exp(e_t(n)), with u = 1/2, or with a transition agent
    u_t = σ(W₂ tanh(W₁ [c_t; o_{t-1}; q_t] + b₁) + b₂).

    Args:
        query_size, memory_size: Q and M.
        input_size: F, of the decoder's input o_{t-1}, which a transition agent reads.
        size: width of the score's hidden layer.
        score: `location` (content, and the weights of the previous step through filters) or `additive` (only content).
        num_filters, kernel_size: of the location score; 32 and 31 if None. The additive score has none.
        transition_agent: whether a network predicts the probability u of moving on.
        agent_size: width of its hidden layer; 128 if None.
        num_heads: each head has its own α and u.
        like: another program (`regard.interop.variants`).
        window: which positions may be attended to; all if None.

    Inputs longer than in training are read forwards at ten times their length if each symbol has one output, and rarely
    at twice it if some have none (`docs/lengths.md`).

    Source: Zhang, Ling & Dai 2018, Forward Attention in Sequence-to-Sequence Acoustic Modeling for Speech Synthesis
    (arXiv 1807.06736).
    """
    scoring: AbstractScore
    filters: dict[str, Any] = {"num_filters": num_filters, "kernel_size": kernel_size}
    filters = {name: value for name, value in filters.items() if value is not None}
    if score == "additive" and filters:
        raise UnsupportedError(f"{' and '.join(filters)}: score='additive' has no filters; leave them out.")
    if agent_size is not None and not transition_agent:
        raise UnsupportedError(
            f"agent_size={agent_size} is the width of a transition agent's hidden layer: use it with "
            "transition_agent=True and without like."
        )
    if score == "location":
        scoring = LocationScore(
            query_size, memory_size, size, location="previous", first_alignment="first", num_heads=num_heads, **filters
        )
    elif score == "additive":
        scoring = AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=True)
    else:
        raise UnsupportedError(f"score={score!r} must be 'location' or 'additive'.")
    read = WeightedSum(memory_size, num_heads=num_heads)
    agent = None
    if transition_agent:
        hidden_size = 128 if agent_size is None else agent_size
        agent = agent_of(read, query_size, input_size, hidden_size=hidden_size, num_heads=num_heads)
    return Mechanism(scoring, ForwardAlignment(num_heads=num_heads, agent=agent), read, window)


def agent_of(
    read: AbstractRead, query_size: int, input_size: int | None, *, hidden_size: int | None, num_heads: int
) -> TransitionAgent:
    """An agent with inputs of the decoder.

    Raises:
        UnsupportedError: without their size.
    """
    if input_size is None:
        raise UnsupportedError(
            "The transition agent reads the decoder's input: give input_size, its number of features."
        )
    return TransitionAgent(
        read.context_size, query_size, input_size=input_size, hidden_size=hidden_size, num_heads=num_heads
    )
