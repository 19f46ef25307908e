"""Keys that are not the values, divided vectors, and queries that are states."""

from __future__ import annotations

from dataclasses import replace

from regard import attention as a
from support.cases.case import MechanismCase, of_recipe

CASES: tuple[MechanismCase, ...] = (
    replace(of_recipe("key-value", a.key_value, (a.AdditiveScore,), key_size=3, size=4), key_size=3),
    replace(of_recipe("key-value, 2 heads", a.key_value, (), key_size=3, size=4, num_heads=2), key_size=3),
    MechanismCase(
        "key-value-predict",
        (a.key_value_predict, a.Divided, a.SlidingWindow),
        lambda: a.key_value_predict(size=6, reach=2),
        query_size=6,
    ),
    MechanismCase(
        "key-value-predict, one part, 2 heads",
        (a.key_value_predict, a.Divided),
        lambda: a.key_value_predict(size=6, num_parts=1, reach=3, num_heads=2),
        query_size=6,
    ),
    MechanismCase(
        "divided pooling",
        (a.Divided,),
        lambda: a.Divided(
            a.Mechanism(a.PoolingScore(2, 4), a.SoftmaxAlignment(), a.WeightedSum(4)),
            (2, 4),
        ),
    ),
    MechanismCase(
        "self-attention, 2 heads, of what is before",
        (a.self_attention, a.SlidingWindow),
        lambda: a.self_attention(size=6, num_heads=2, window=a.SlidingWindow(back=2, front=-1)),
        query_size=6,
    ),
    of_recipe("vinyals", a.vinyals, (a.AdditiveScore,)),
    of_recipe("vinyals, 2 heads", a.vinyals, (a.AdditiveScore,), size=3, num_heads=2),
)
