"""A reader that stays or moves on by one."""

from __future__ import annotations

from regard import attention as a
from support.cases.case import MechanismCase, PartCase, of_recipe

_SHOWS = (a.StepwiseAlignment,)

CASES: tuple[MechanismCase, ...] = (
    of_recipe("stepwise monotonic", a.stepwise_monotonic, _SHOWS, size=4, bias=0.0),
    of_recipe("stepwise monotonic, lost, 2 heads", a.stepwise_monotonic, _SHOWS, size=4, num_heads=2, remaining="lost"),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("stepwise", "alignment", lambda heads: a.StepwiseAlignment(num_heads=heads, bias=0.0)),
)
