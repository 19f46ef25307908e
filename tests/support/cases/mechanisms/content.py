"""Mechanisms that compare query and memory."""

from __future__ import annotations

from regard import attention as a
from support.cases.case import MechanismCase, PartCase, of_recipe

_ADDITIVE = (a.AdditiveScore, a.SoftmaxAlignment, a.WeightedSum, a.FullWindow)

CASES: tuple[MechanismCase, ...] = (
    of_recipe("bahdanau", a.bahdanau, _ADDITIVE, size=4),
    of_recipe("bahdanau, 2 heads", a.bahdanau, _ADDITIVE, size=4, num_heads=2, sharpening=1.5),
    of_recipe("bahdanau, normalised, 2 heads", a.bahdanau, _ADDITIVE, size=4, num_heads=2, normalised=True),
    of_recipe("luong dot", a.luong, (a.DotScore,), score="dot", query_size=6),
    of_recipe(
        "luong dot, learned scale, 3 heads",
        a.luong,
        (a.DotScore,),
        score="dot",
        query_size=6,
        num_heads=3,
        learned_scale=True,
    ),
    of_recipe("luong general", a.luong, (a.BilinearScore,)),
    of_recipe(
        "luong general, learned scale, 2 heads",
        a.luong,
        (a.BilinearScore,),
        query_size=4,
        num_heads=2,
        learned_scale=True,
    ),
    of_recipe("luong concat", a.luong, (a.ConcatScore,), score="concat", size=4),
    of_recipe("luong concat, 2 heads", a.luong, (a.ConcatScore,), score="concat", size=4, num_heads=2),
    MechanismCase(
        "values split between 2 heads",
        (a.WeightedSum,),
        lambda: a.Mechanism(
            a.AdditiveScore(5, 6, 4, num_heads=2, bias=True),
            a.SoftmaxAlignment(),
            a.WeightedSum(6, num_heads=2, split_heads=True),
        ),
    ),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("additive", "score", lambda heads: a.AdditiveScore(6, 6, 4, num_heads=heads, bias=True)),
    PartCase("additive, normalised", "score", lambda heads: a.AdditiveScore(6, 6, 4, num_heads=heads, normalised=True)),
    PartCase("dot", "score", lambda heads: a.DotScore(6, 6, num_heads=heads)),
    PartCase("general", "score", lambda heads: a.BilinearScore(6, 6, num_heads=heads)),
    PartCase("concat", "score", lambda heads: a.ConcatScore(6, 6, 4, num_heads=heads)),
    PartCase("softmax", "alignment", lambda heads: a.SoftmaxAlignment()),
    PartCase("sum", "read", lambda heads: a.WeightedSum(6, num_heads=heads)),
    PartCase("sum of slices", "read", lambda heads: a.WeightedSum(6, num_heads=heads, split_heads=True)),
)
