"""The additive score with a rectifier."""

from __future__ import annotations

from typing import Any

from regard.attention.peers import RectifiedScore
from regard.testing.oracles.scores.content import projected
from regard.testing.oracles.story import Story, Vector, oracle


@oracle(RectifiedScore)
def rectified(score: Any, story: Story) -> Vector:
    """e_j = Σ_d v_d max((W q)_d + (U h_j)_d + b_d, 0)."""
    inner = score.additive
    v = inner.v[story.head].tolist()
    q, keys = projected(inner, story)
    return [sum(v[d] * max(q[d] + k[d], 0.0) for d in range(len(v))) for k in keys]
