"""A reader that stays or moves on by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard import attention as a
from regard.testing.cases.case import MechanismCase, PartCase, of_recipe
from regard.testing.oracles.arithmetic import number, sigmoid
from regard.testing.oracles.story import Story, Vector, oracle

_SHOWS = (a.StepwiseAlignment,)

CASES: tuple[MechanismCase, ...] = (
    of_recipe("stepwise monotonic", a.stepwise_monotonic, _SHOWS, size=4, bias=0.0),
    of_recipe("stepwise monotonic, lost, 2 heads", a.stepwise_monotonic, _SHOWS, size=4, num_heads=2, remaining="lost"),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("stepwise", "alignment", lambda heads: a.StepwiseAlignment(num_heads=heads, bias=0.0)),
)


@oracle(a.StepwiseAlignment)
def stepwise(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """α of the last step: at each position the mass that stays plus the mass that comes from the left."""
    weights = [1.0] + [0.0] * (story.num_positions - 1)
    for step, support in zip(energies, supports, strict=True):
        stay = [sigmoid(e + number(alignment.bias)) for e in step]
        moved = [0.0] * len(weights)
        for j in range(len(weights)):
            moved[j] = stay[j] * weights[j]
            if j > 0:
                moved[j] += (1 - stay[j - 1]) * weights[j - 1]
        weights = [w if inside else 0.0 for w, inside in zip(moved, support, strict=True)]
        if alignment.remaining == "last" and any(support):
            weights[max(j for j, inside in enumerate(support) if inside)] += 1 - sum(weights)
    return weights
