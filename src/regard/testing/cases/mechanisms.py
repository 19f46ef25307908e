"""Every score, window, alignment, read and recipe, with one head and with several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard import attention as a
from regard.testing.cases.case import MechanismCase


def _recipe(name: str, recipe: Callable[..., Any], shows: tuple[Any, ...], **options: Any) -> MechanismCase:
    query_size = options.pop("query_size", 5)
    memory_size = options.pop("memory_size", 6)
    return MechanismCase(
        name,
        (recipe, a.Mechanism, *shows),
        lambda: recipe(query_size=query_size, memory_size=memory_size, **options),
        memory_size,
        query_size,
    )


LOCATION: dict[str, Any] = {"size": 4, "num_filters": 2, "kernel_size": 3}
_ADDITIVE = (a.AdditiveScore, a.SoftmaxAlignment, a.WeightedSum, a.FullWindow)

MECHANISMS: tuple[MechanismCase, ...] = (
    _recipe("bahdanau", a.bahdanau, _ADDITIVE, size=4),
    _recipe("bahdanau, 2 heads", a.bahdanau, _ADDITIVE, size=4, num_heads=2, sharpening=1.5),
    _recipe("bahdanau, normalised, 2 heads", a.bahdanau, _ADDITIVE, size=4, num_heads=2, normalised=True),
    _recipe("luong dot", a.luong, (a.DotScore,), score="dot", query_size=6),
    _recipe(
        "luong dot, learned scale, 3 heads",
        a.luong,
        (a.DotScore,),
        score="dot",
        query_size=6,
        num_heads=3,
        learned_scale=True,
    ),
    _recipe("luong general", a.luong, (a.BilinearScore,)),
    _recipe(
        "luong general, learned scale, 2 heads",
        a.luong,
        (a.BilinearScore,),
        query_size=4,
        num_heads=2,
        learned_scale=True,
    ),
    _recipe("luong concat", a.luong, (a.ConcatScore,), score="concat", size=4),
    _recipe("luong concat, 2 heads", a.luong, (a.ConcatScore,), score="concat", size=4, num_heads=2),
    _recipe("location-sensitive", a.location_sensitive, (a.LocationScore,), **LOCATION),
    _recipe(
        "location-sensitive, previous, 2 heads",
        a.location_sensitive,
        (a.LocationScore,),
        num_heads=2,
        location="previous",
        **LOCATION,
    ),
    _recipe(
        "location-sensitive, both, 4 heads",
        a.location_sensitive,
        (a.LocationScore,),
        num_heads=4,
        location="both",
        **LOCATION,
    ),
    _recipe("mocha", a.mocha, (a.ChunkwiseAlignment,), size=4, chunk_size=3),
    _recipe("mocha, chunk of 1, 2 heads", a.mocha, (a.ChunkwiseAlignment,), size=4, chunk_size=1, num_heads=2),
    _recipe("mocha, 2 heads", a.mocha, (a.ChunkwiseAlignment,), size=4, chunk_size=2, num_heads=2, bias=0.5),
    _recipe("gmm", a.gmm, (a.MixtureScore, a.ExponentialAlignment), size=4, num_components=2),
    _recipe("gmm, 2 heads", a.gmm, (a.MixtureScore, a.ExponentialAlignment), size=4, num_components=3, num_heads=2),
    _recipe("multi-head, 1 head", a.multi_head, (a.ScaledDotScore, a.ProjectedSum), size=4, num_heads=1),
    _recipe(
        "multi-head, biases, 2 heads", a.multi_head, (a.ScaledDotScore, a.ProjectedSum), size=4, num_heads=2, bias=True
    ),
    _recipe("multi-head, causal", a.multi_head, (a.CausalWindow,), size=4, num_heads=2, window=a.CausalWindow()),
    MechanismCase("self-pooling", (a.self_pooling, a.PoolingScore), lambda: a.self_pooling(memory_size=6, size=4)),
    MechanismCase(
        "self-pooling, 2 heads",
        (a.self_pooling, a.PoolingScore),
        lambda: a.self_pooling(memory_size=6, size=4, num_heads=2),
    ),
    _recipe("sliding window", a.luong, (a.SlidingWindow,), window=a.SlidingWindow(back=1, front=1)),
    _recipe("argmax window", a.bahdanau, (a.ArgmaxWindow,), size=4, window=a.ArgmaxWindow(back=1, front=2)),
    _recipe(
        "argmax window, 2 heads",
        a.location_sensitive,
        (a.ArgmaxWindow,),
        num_heads=2,
        window=a.ArgmaxWindow(back=0, front=2, num_heads=2),
        **LOCATION,
    ),
    _recipe(
        "intersection of windows",
        a.bahdanau,
        (a.Intersection,),
        size=4,
        window=a.Intersection([a.ArgmaxWindow(back=2, front=2), a.SlidingWindow(back=2, front=None)]),
    ),
    _recipe(
        "intersection without memory",
        a.luong,
        (a.Intersection,),
        window=a.Intersection([a.CausalWindow(), a.FullWindow()]),
    ),
    MechanismCase(
        "values split between 2 heads",
        (a.WeightedSum,),
        lambda: a.Mechanism(
            a.AdditiveScore(5, 6, 4, num_heads=2, bias=True),
            a.SoftmaxAlignment(),
            a.WeightedSum(6, num_heads=2, split_heads=True),
        ),
    ),
    MechanismCase(
        "parallel",
        (a.Parallel,),
        lambda: a.Parallel(
            [
                a.bahdanau(query_size=5, memory_size=6, size=4),
                a.location_sensitive(query_size=5, memory_size=4, **LOCATION),
            ]
        ),
        (6, 4),
    ),
    MechanismCase(
        "parallel, combined",
        (a.Parallel,),
        lambda: a.Parallel(
            [a.luong(query_size=5, memory_size=6), a.mocha(query_size=5, memory_size=6, size=4)],
            combination=a.bahdanau(query_size=5, memory_size=6, size=4),
        ),
        (6, 6),
    ),
)
