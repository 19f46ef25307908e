"""Attention that stays or moves on by one position."""

from __future__ import annotations

from typing import Any

from regard import attention as a
from regard.interop.coqui import RestartingForwardAlignment, UnmovedLocationScore
from support.cases.case import MechanismCase, PartCase, of_recipe
from support.cases.mechanisms.location import LOCATION


def _with_agent(name: str, **options: Any) -> MechanismCase:
    """Forward attention whose agent reads inputs of 3 features."""
    options |= {"score": "additive", "size": 4, "transition_agent": True}
    return MechanismCase(
        name,
        (a.forward_attention,),
        lambda: a.forward_attention(query_size=5, memory_size=6, input_size=3, **options),
        input_size=3,
    )


CASES: tuple[MechanismCase, ...] = (
    of_recipe("forward attention", a.forward_attention, (a.ForwardAlignment,), **LOCATION),
    of_recipe("forward attention, 2 heads", a.forward_attention, (a.ForwardAlignment,), num_heads=2, **LOCATION),
    *(
        of_recipe(
            f"forward attention, like coqui, {heads} head{'s' * (heads > 1)}",
            a.forward_attention,
            (RestartingForwardAlignment, UnmovedLocationScore),
            like="coqui",
            num_heads=heads,
            **LOCATION,
        )
        for heads in (1, 2)
    ),
    _with_agent("forward attention, agent, 2 heads", num_heads=2, agent_size=4),
    _with_agent("forward attention, agent, like coqui", like="coqui"),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("forward", "alignment", lambda heads: a.ForwardAlignment(num_heads=heads)),
    PartCase("forward, as coqui", "alignment", lambda heads: RestartingForwardAlignment(num_heads=heads)),
    PartCase("unmoved location", "score", lambda heads: UnmovedLocationScore(6, 6, **LOCATION, num_heads=heads)),
    PartCase(
        "forward, agent",
        "alignment",
        lambda heads: a.ForwardAlignment(
            num_heads=heads, agent=a.TransitionAgent(6, 6, input_size=6, hidden_size=4, num_heads=heads)
        ),
    ),
)
