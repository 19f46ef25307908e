"""Mechanisms that depend on earlier alignments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard import attention as a
from support.cases.case import MechanismCase, PartCase, of_recipe

LOCATION: dict[str, Any] = {"size": 4, "num_filters": 2, "kernel_size": 3}

DYNAMIC: dict[str, Any] = {
    "size": 4,
    "static_filters": 2,
    "static_kernel": 3,
    "dynamic_filters": 2,
    "dynamic_kernel": 5,
    "reach": 2,
}

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
    of_recipe(
        "location-sensitive, three previous, uniform start in the sum, 2 heads",
        a.location_sensitive,
        (a.LocationScore,),
        num_heads=2,
        location="both",
        num_previous=3,
        first_alignment="uniform",
        accumulate_first=True,
        **LOCATION,
    ),
    of_recipe("location-sensitive, as espnet", a.location_sensitive, (a.LocationScore,), like="espnet", **LOCATION),
    of_recipe("location-sensitive, as coqui", a.location_sensitive, (a.LocationScore,), like="coqui", **LOCATION),
    replace(
        of_recipe(
            "location-sensitive, as speechbrain",
            a.location_sensitive,
            (a.LocationScore,),
            like="speechbrain",
            **LOCATION,
        ),
        exempt={"gradients_are_those_of_finite_differences": "weights are detached before the filters see them"},
    ),
    of_recipe("coverage", a.coverage, (a.CoverageScore,), size=4),
    of_recipe("coverage, as espnet, 2 heads", a.coverage, (a.CoverageScore,), size=4, like="espnet", num_heads=2),
    of_recipe("plane coverage", a.plane_coverage, (a.PlaneCoverageScore,), size=4, num_filters=2, kernel_size=3),
    of_recipe(
        "plane coverage, a gate, 2 heads",
        a.plane_coverage,
        (a.PlaneCoverageScore, a.GatedSum),
        size=4,
        num_heads=2,
        num_filters=3,
        kernel_size=(1, 3),
        gate="vector",
    ),
    of_recipe(
        "dynamic convolution",
        a.dynamic_convolution,
        (a.DynamicConvolutionScore, a.ForwardPriorWindow),
        **DYNAMIC,
    ),
    of_recipe(
        "dynamic convolution, 2 heads",
        a.dynamic_convolution,
        (a.DynamicConvolutionScore, a.ForwardPriorWindow),
        num_heads=2,
        window=a.SlidingWindow(back=None, front=1),
        **DYNAMIC,
    ),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("location", "score", lambda heads: a.LocationScore(6, 6, **LOCATION, num_heads=heads, location="both")),
    PartCase(
        "location, uniform start",
        "score",
        lambda heads: a.LocationScore(6, 6, **LOCATION, num_heads=heads, first_alignment="uniform"),
    ),
    PartCase("coverage", "score", lambda heads: a.CoverageScore(6, 6, 4, num_heads=heads)),
    PartCase(
        "plane coverage",
        "score",
        lambda heads: a.PlaneCoverageScore(6, 6, 4, num_heads=heads, num_filters=2, kernel_size=3),
    ),
    PartCase(
        "dynamic convolution",
        "score",
        lambda heads: a.DynamicConvolutionScore(
            6, 4, num_heads=heads, static_filters=2, static_kernel=3, dynamic_filters=1, dynamic_kernel=3
        ),
    ),
    PartCase("forward prior", "window", lambda heads: a.ForwardPriorWindow(reach=2, num_heads=heads)),
)
