"""Readers that move from left to right."""

from __future__ import annotations

from regard import attention as a
from regard.interop.tfa.mechanisms.monotonic import ClippedMonotonicAlignment
from support.cases.case import MechanismCase, PartCase, of_recipe

CASES: tuple[MechanismCase, ...] = (
    of_recipe("monotonic", a.monotonic, (a.MonotonicAlignment,), size=4),
    *(
        of_recipe(
            f"monotonic, as tensorflow-addons' parallel, {heads} head{'s' * (heads > 1)}",
            a.monotonic,
            (ClippedMonotonicAlignment,),
            size=4,
            num_heads=heads,
            like="tfa_parallel",
        )
        for heads in (1, 2)
    ),
    of_recipe(
        "monotonic general, last, 2 heads",
        a.monotonic,
        (a.MonotonicAlignment,),
        score="general",
        query_size=4,
        num_heads=2,
        remaining="last",
        learned_bias=False,
    ),
    of_recipe("mocha", a.mocha, (a.ChunkwiseAlignment,), size=4, chunk_size=3),
    of_recipe("mocha, 2 heads", a.mocha, (a.ChunkwiseAlignment,), size=4, chunk_size=2, num_heads=2, bias=0.5),
    of_recipe("milk, 2 heads", a.milk, (a.ChunkwiseAlignment,), size=4, num_heads=2),
    MechanismCase(
        "mocha, hard, 2 heads",
        (a.MonotonicAlignment, a.ChunkwiseAlignment),
        lambda: a.mocha(
            query_size=5, memory_size=6, size=4, chunk_size=2, num_heads=2, bias=0.0, hard="evaluation", noise=1.0
        ),
        exempt={
            "half_types_are_close_to_float32": "a decision at p = 1/2 may fall on the other side in half precision"
        },
    ),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("clipped monotonic", "alignment", lambda heads: ClippedMonotonicAlignment(num_heads=heads)),
    PartCase("monotonic", "alignment", lambda heads: a.MonotonicAlignment(num_heads=heads, remaining="last")),
    PartCase(
        "chunkwise",
        "alignment",
        lambda heads: a.ChunkwiseAlignment(
            a.DotScore(6, 6, num_heads=heads),
            chunk_size=2,
            reader=a.MonotonicAlignment(num_heads=heads, remaining="last"),
        ),
    ),
)
