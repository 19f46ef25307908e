"""Forward attention."""

from __future__ import annotations

from typing import Any, Literal

from regard.attention.alignments import ForwardAlignment, TransitionAgent
from regard.attention.contract import AbstractScore, AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore, LocationScore, UnmovedLocationScore
from regard.errors import UnsupportedError


def forward_attention(
    *,
    query_size: int,
    memory_size: int,
    input_size: int | None = None,
    size: int = 128,
    score: Literal["location", "additive"] = "location",
    num_filters: int = 32,
    kernel_size: int = 31,
    transition_agent: bool = False,
    agent_size: int = 128,
    num_heads: int = 1,
    like: Literal["espnet", "coqui"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Attention that stays where it was or moves on by one position.

    α_t(n) ∝ ((1 - u_t-1) α_t-1(n) + u_t-1 α_t-1(n-1)) exp(e_t(n)), with u = 1/2, or with a transition agent
    u_t = σ(W₂ tanh(W₁ [c_t; o_t-1; q_t] + b₁) + b₂).

    Args:
        query_size, memory_size: Q and M.
        input_size: F, of what the decoder is fed (o_t-1), which a transition agent sees.
        size: width of the score's hidden layer.
        score: location (content, and the weights of the step before through filters) or additive (content alone).
        num_filters, kernel_size: of the location score.
        transition_agent: whether a network tells how likely attention moves on.
        agent_size: width of its hidden layer.
        num_heads: each stays or moves by itself, with a u of its own.
        like: another implementation, see `ForwardAlignment`.

            - `espnet` (AttForward, AttForwardTA): weights of at least 1e-6, also on padding; an agent without hidden
              layer, whose W and b are minus theirs.
            - `coqui`: a floor of 1e-8; an agent without hidden layer that does not see what was fed. Its location
              score has no b, and sees the previous weights and the sum of softmax(e) (`UnmovedLocationScore`).

    Source: Zhang, Ling & Dai 2018, Forward Attention in Sequence-to-Sequence Acoustic Modeling for Speech Synthesis
    (arXiv 1807.06736).
    """
    scoring: AbstractScore
    heads_and_filters: dict[str, Any] = {"num_heads": num_heads, "num_filters": num_filters, "kernel_size": kernel_size}
    if score == "location" and like == "coqui":
        scoring = UnmovedLocationScore(query_size, memory_size, size, bias=False, **heads_and_filters)
    elif score == "location":
        scoring = LocationScore(
            query_size, memory_size, size, location="previous", first_alignment="first", **heads_and_filters
        )
    elif score == "additive":
        scoring = AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=like != "coqui")
    else:
        raise UnsupportedError(f"score={score!r} must be 'location' or 'additive'.")
    read = WeightedSum(memory_size, num_heads=num_heads)
    agent = None
    if transition_agent:
        if input_size is None and like != "coqui":
            raise UnsupportedError("The transition agent sees what the decoder is fed: give input_size, its features.")
        agent = TransitionAgent(
            read.context_size,
            query_size,
            input_size=None if like == "coqui" else input_size,
            hidden_size=agent_size if like is None else None,
            num_heads=num_heads,
        )
    return Mechanism(scoring, ForwardAlignment(num_heads=num_heads, agent=agent, like=like), read, window)
