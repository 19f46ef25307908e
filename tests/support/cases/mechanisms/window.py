"""Windows, with fast mechanisms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from regard import attention as a
from regard.interop.windows import argmax_window
from support.cases.case import MechanismCase, PartCase, of_recipe
from support.cases.mechanisms.location import LOCATION


def narrow(recipe: Callable[..., a.Mechanism]) -> Callable[..., a.Mechanism]:
    """The recipe with `narrow=True`: it attends only to the positions of its window, however short the source is."""

    @functools.wraps(recipe)
    def make(**options: Any) -> a.Mechanism:
        mechanism = recipe(**options)
        mechanism.narrow = True
        return mechanism

    return make


CASES: tuple[MechanismCase, ...] = (
    of_recipe("sliding window", a.luong, (a.SlidingWindow,), window=a.SlidingWindow(back=1, front=1)),
    of_recipe("argmax window", a.bahdanau, (a.ArgmaxWindow,), size=4, window=a.ArgmaxWindow(back=1, front=2)),
    of_recipe(
        "argmax window, 2 heads",
        a.location_sensitive,
        (a.ArgmaxWindow,),
        num_heads=2,
        window=a.ArgmaxWindow(back=0, front=2, num_heads=2),
        **LOCATION,
    ),
    of_recipe(
        "argmax window like coqui's in evaluation, narrow",
        narrow(a.bahdanau),
        (a.ArgmaxWindow, a.InEvaluation),
        size=4,
        window=a.InEvaluation(argmax_window("coqui")),
    ),
    of_recipe(
        "median window, 2 heads, narrow",
        narrow(a.multi_head),
        (a.ArgmaxWindow,),
        size=4,
        num_heads=2,
        bias=True,
        window=a.ArgmaxWindow(back=1, front=1, centre="median", num_heads=2),
    ),
    of_recipe("luong local, monotonic", a.luong, (a.SlidingWindow,), local="monotonic", reach=1),
    of_recipe("luong local, predictive", a.luong, (a.PredictiveWindow,), local="predictive", reach=2),
    of_recipe(
        "luong local, predictive, 2 heads, narrow",
        narrow(a.luong),
        (a.PredictiveWindow,),
        query_size=4,
        num_heads=2,
        local="predictive",
        reach=1,
    ),
    MechanismCase(
        "intersection of windows, narrow",
        (a.Intersection,),
        lambda: narrow(a.bahdanau)(
            query_size=5,
            memory_size=6,
            size=4,
            num_heads=2,
            window=a.Intersection(
                [a.ArgmaxWindow(back=2, front=1, num_heads=2), a.PredictiveWindow(5, 4, reach=2), a.CausalWindow()]
            ),
        ),
    ),
    of_recipe(
        "intersection of windows",
        a.bahdanau,
        (a.Intersection,),
        size=4,
        window=a.Intersection([a.ArgmaxWindow(back=2, front=2), a.SlidingWindow(back=2, front=None)]),
    ),
    of_recipe(
        "intersection without memory",
        a.luong,
        (a.Intersection,),
        window=a.Intersection([a.CausalWindow(), a.FullWindow()]),
    ),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("full", "window", lambda heads: a.FullWindow()),
    PartCase("causal", "window", lambda heads: a.CausalWindow()),
    PartCase("sliding", "window", lambda heads: a.SlidingWindow(back=1, front=1)),
    PartCase("argmax", "window", lambda heads: a.ArgmaxWindow(back=1, front=2, num_heads=heads)),
    PartCase(
        "median",
        "window",
        lambda heads: a.InEvaluation(a.ArgmaxWindow(back=2, front=2, centre="median", num_heads=heads)),
    ),
    PartCase("predictive", "window", lambda heads: a.PredictiveWindow(6, 4, reach=2, num_heads=heads)),
    PartCase(
        "intersection",
        "window",
        lambda heads: a.Intersection(
            [a.ArgmaxWindow(back=1, front=3, num_heads=heads), a.SlidingWindow(back=2, front=2)]
        ),
    ),
)
