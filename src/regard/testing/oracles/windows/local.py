"""Windows around a predicted place."""

from __future__ import annotations

import math
from typing import Any

from regard.attention import PredictiveWindow
from regard.testing.oracles.arithmetic import dot, head_slice, linear, sigmoid
from regard.testing.oracles.story import Seen, Story, oracle


@oracle(PredictiveWindow)
def predictive(window: Any, story: Story) -> Seen:
    """|j - p| ≤ D and the gain exp(-(j - p)² / 2σ²), σ = D / 2, p = S · σ(vᵀ tanh(W q))."""
    head = story.head if window.num_heads > 1 else 0
    hidden = [math.tanh(x) for x in linear(window.query_projection, story.query)]
    predicted = dot(window.v[head].tolist(), head_slice(hidden, head, window.num_heads))
    place = story.num_positions * sigmoid(predicted)
    width = window.reach / 2
    allowed, gain = [], []
    for j in range(story.num_positions):
        allowed.append(abs(j - place) <= window.reach)
        gain.append(math.exp(-((j - place) ** 2) / (2 * width**2)))
    return Seen(allowed, gain=gain)
