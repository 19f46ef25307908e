"""Windows, over mechanisms that are cheap."""

from __future__ import annotations

from regard import attention as a
from regard.testing.cases.case import MechanismCase, PartCase, of_recipe
from regard.testing.cases.mechanisms.location import LOCATION

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
        "intersection",
        "window",
        lambda heads: a.Intersection(
            [a.ArgmaxWindow(back=1, front=3, num_heads=heads), a.SlidingWindow(back=2, front=2)]
        ),
    ),
)
