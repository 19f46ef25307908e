"""Coqui TTS's attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from regard.attention import recipes
from regard.attention.alignments import ExponentialAlignment, TransitionAgent
from regard.attention.alignments.forward import ForwardAlignment, Progress
from regard.attention.contract import AbstractScore, AbstractWindow, Memory
from regard.attention.mechanism import Mechanism
from regard.attention.peers.sigmoid_mixture import SigmoidMixtureScore
from regard.attention.peers.unmasked import UnmaskedAlignment
from regard.attention.peers.unmoved_location import UnmovedLocationScore
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore
from regard.errors import UnsupportedError

FLOOR, ELSEWHERE = 1e-8, 1e-7
SMOOTH = ("sigmoid", "smoothed_sigmoid")
"""Alignments whose weights depend on a bias of v."""


class RestartingForwardAlignment(ForwardAlignment):
    """Forward attention with m_t + 1e-8 instead of m_t; α̂_0 is 1e-7 at the other positions.

    The agent has no hidden layer and does not use the decoder's input.
    """

    floor = FLOOR

    def initial(self, memory: Memory, num_rows: int) -> Progress:
        """α̂_0 and u_0 = 1/2."""
        first = super().initial(memory, num_rows)
        return replace(first, alignment=first.alignment.clamp(min=ELSEWHERE))


def location_sensitive(**options: Any) -> Mechanism:
    """The attention of Coqui's Tacotron 1 and 2."""
    changed: dict[str, Any] = {"location": "both", "alignment": "smoothed_sigmoid", "bias": False}
    chosen = changed | options
    return recipes.location_sensitive(**({"output_bias": chosen["alignment"] in SMOOTH} | chosen))


def forward_attention(
    *,
    query_size: int,
    memory_size: int,
    input_size: int | None = None,
    size: int = 128,
    score: Literal["location", "additive"] = "location",
    transition_agent: bool = False,
    num_heads: int = 1,
    window: AbstractWindow | None = None,
    **filters: Any,
) -> Mechanism:
    """`OriginalAttention` with forward attention; the agent never uses the decoder's input, even with `input_size`."""
    plain = recipes.forward_attention(
        query_size=query_size, memory_size=memory_size, size=size, score=score, num_heads=num_heads, **filters
    )
    scoring: AbstractScore
    if score == "location":
        scoring = UnmovedLocationScore(query_size, memory_size, size, bias=False, num_heads=num_heads, **filters)
    else:
        scoring = AdditiveScore(query_size, memory_size, size, num_heads=num_heads)
    agent = None
    if transition_agent:
        agent = TransitionAgent(plain.context_size, query_size, hidden_size=None, num_heads=num_heads)
    return Mechanism(scoring, RestartingForwardAlignment(num_heads=num_heads, agent=agent), plain.read, window)


def dynamic_convolution(**options: Any) -> Mechanism:
    """Results depend on how far sentences are padded; bshall's original agrees with the recipe's default instead."""
    plain = recipes.dynamic_convolution(**options)
    return Mechanism(plain.score, UnmaskedAlignment(plain.alignment), plain.read, plain.window)


def gmm(*, query_size: int, memory_size: int, num_components: int = 5, num_heads: int = 1, **others: Any) -> Mechanism:
    """GravesAttention: another form of the logistic mixture, a hidden layer as wide as the query, dropout on ω̂."""
    for name, value in others.items():
        raise UnsupportedError(f"{name}={value!r}: like='coqui' fixes this option; leave it out.")
    score = SigmoidMixtureScore(query_size, num_heads=num_heads, num_components=num_components)
    read = WeightedSum(memory_size, num_heads=num_heads)
    return Mechanism(score, UnmaskedAlignment(ExponentialAlignment()), read)
