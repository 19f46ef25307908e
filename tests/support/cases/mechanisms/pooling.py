"""Memories read without a query."""

from __future__ import annotations

from regard import attention as a
from support.cases.case import MechanismCase, PartCase

CASES: tuple[MechanismCase, ...] = (
    MechanismCase("self-pooling", (a.self_pooling, a.PoolingScore), lambda: a.self_pooling(memory_size=6, size=4)),
    MechanismCase(
        "self-pooling, 2 heads",
        (a.self_pooling, a.PoolingScore),
        lambda: a.self_pooling(memory_size=6, size=4, num_heads=2),
    ),
)

PARTS: tuple[PartCase, ...] = (PartCase("pooling", "score", lambda heads: a.PoolingScore(6, 4, num_heads=heads)),)
