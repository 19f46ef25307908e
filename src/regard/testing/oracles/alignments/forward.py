"""Weights that stay or move on by one position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.attention import ForwardAlignment
from regard.attention.peers import RestartingForwardAlignment
from regard.testing.oracles.arithmetic import linear, masked_softmax, sigmoid
from regard.testing.oracles.story import Story, Vector, oracle


@oracle(ForwardAlignment, RestartingForwardAlignment)
def forward(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """α̂_t(n) = ((1-u_{t-1}) α̂_{t-1}(n) + u_{t-1} α̂_{t-1}(n-1) + ε) y_t(n) / Σ, from the first position, u_0 = 1/2."""
    floor, elsewhere = (1e-8, 1e-7) if isinstance(alignment, RestartingForwardAlignment) else (0.0, 0.0)
    place = [1.0] + [elsewhere] * (story.num_positions - 1)
    weights = place
    for step, (energy, support) in enumerate(zip(energies, supports, strict=True)):
        u = 0.5 if step == 0 else moving(alignment.agent, story, step - 1)
        y = masked_softmax(energy, support)
        reached = []
        for n in range(story.num_positions):
            before = place[n - 1] if n > 0 else 0.0
            reached.append(((1 - u) * place[n] + u * before + floor) * y[n])
        total = sum(reached)
        weights = [r / total for r in reached] if total > 0 else y
        place = weights if any(weights) else place
    return weights


def moving(agent: Any, story: Story, step: int) -> float:
    """u of a step from its context, input and query; 1/2 without an agent."""
    if agent is None:
        return 0.5
    features = story.contexts[step] + (story.inputs[step] if agent.input_size and story.inputs else [])
    features = features + story.queries[step]
    if agent.hidden is not None:
        features = [math.tanh(x) for x in linear(agent.hidden, features)]
    return sigmoid(linear(agent.output, features)[story.head])
