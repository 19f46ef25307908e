"""The dot product of bounded projections."""

from __future__ import annotations

import math
from typing import Any

from regard.attention import TanhDotScore
from regard.testing.oracles.scores.content import projected
from regard.testing.oracles.story import Story, Vector, oracle


@oracle(TanhDotScore)
def tanh_dot(score: Any, story: Story) -> Vector:
    """e_j = Σ_d tanh((W_q q)_d + b_d) tanh((W_k h_j)_d + b'_d) / √d over the head's slices, d their width."""
    q, keys = projected(score.content, story)
    energies = []
    for k in keys:
        total = sum(math.tanh(a) * math.tanh(b) for a, b in zip(q, k, strict=True))
        energies.append(total / math.sqrt(len(q)))
    return energies
