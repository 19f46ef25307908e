"""Mechanisms that see where attention was."""

from __future__ import annotations

from typing import Any

from regard import attention as a
from regard.testing.cases.case import MechanismCase, PartCase, of_recipe

LOCATION: dict[str, Any] = {"size": 4, "num_filters": 2, "kernel_size": 3}

CASES: tuple[MechanismCase, ...] = (
    of_recipe("location-sensitive", a.location_sensitive, (a.LocationScore,), **LOCATION),
    of_recipe(
        "location-sensitive, previous, 2 heads",
        a.location_sensitive,
        (a.LocationScore,),
        num_heads=2,
        location="previous",
        **LOCATION,
    ),
    of_recipe(
        "location-sensitive, both, 4 heads",
        a.location_sensitive,
        (a.LocationScore,),
        num_heads=4,
        location="both",
        **LOCATION,
    ),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("location", "score", lambda heads: a.LocationScore(6, 6, **LOCATION, num_heads=heads, location="both")),
)
