"""Readers that move from left to right."""

from __future__ import annotations

from regard import attention as a
from regard.testing.cases.case import MechanismCase, PartCase, of_recipe

CASES: tuple[MechanismCase, ...] = (
    of_recipe("mocha", a.mocha, (a.ChunkwiseAlignment,), size=4, chunk_size=3),
    of_recipe("mocha, chunk of 1, 2 heads", a.mocha, (a.ChunkwiseAlignment,), size=4, chunk_size=1, num_heads=2),
    of_recipe("mocha, 2 heads", a.mocha, (a.ChunkwiseAlignment,), size=4, chunk_size=2, num_heads=2, bias=0.5),
)

PARTS: tuple[PartCase, ...] = (
    PartCase(
        "chunkwise",
        "alignment",
        lambda heads: a.ChunkwiseAlignment(a.DotScore(6, 6, num_heads=heads), chunk_size=2),
    ),
)
