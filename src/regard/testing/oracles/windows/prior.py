"""A prior that moves attention forward."""

from __future__ import annotations

import math
from typing import Any

from regard.attention import ForwardPriorWindow
from regard.testing.oracles.story import Seen, Story, Vector, oracle


def moves(reach: int, alpha: float, beta: float) -> Vector:
    """C(n, k) Π_{i<k} (α + i) Π_{i<n-k} (β + i) / Π_{i<n} (α + β + i).

    >>> [round(p, 2) for p in moves(2, 1.0, 1.0)]
    [0.33, 0.33, 0.33]
    """
    denominator = math.prod(alpha + beta + i for i in range(reach))
    return [
        math.comb(reach, k)
        * math.prod(alpha + i for i in range(k))
        * math.prod(beta + i for i in range(reach - k))
        / denominator
        for k in range(reach + 1)
    ]


@oracle(ForwardPriorWindow)
def forward_prior(window: Any, story: Story) -> Seen:
    """log Σ_k P_k α_{j-k}, not below the floor."""
    start = [float(j == 0) for j in range(story.num_positions)]
    previous = story.weights[-1] if story.weights else start
    probabilities = moves(len(window.probabilities) - 1, window.alpha, window.beta)
    prior = []
    for j in range(story.num_positions):
        mass = sum(p * previous[j - k] for k, p in enumerate(probabilities) if k <= j)
        prior.append(math.log(max(mass, window.floor)))
    return Seen([True] * story.num_positions, prior)
