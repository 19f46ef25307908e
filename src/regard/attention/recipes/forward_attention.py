"""Forward attention."""

from __future__ import annotations

from typing import Any, Literal

from regard.attention.alignments import ForwardAlignment, TransitionAgent
from regard.attention.contract import AbstractRead, AbstractScore, AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import AdditiveScore, LocationScore
from regard.errors import UnsupportedError


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
    like: Literal["espnet", "coqui"] | None = None,
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
        num_heads: each head stays or moves by itself, with its own u.
        like: another implementation (`regard.attention.peers`).
        window: which positions may be attended to; all if None.

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
    """An agent that reads the context, the decoder's input and the query."""
    if input_size is None:
        raise UnsupportedError(
            "The transition agent reads the decoder's input: give input_size, its number of features."
        )
    return TransitionAgent(
        read.context_size, query_size, input_size=input_size, hidden_size=hidden_size, num_heads=num_heads
    )
