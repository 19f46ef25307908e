"""Recipes: published mechanisms, each composed from four parts in a few lines."""

from __future__ import annotations

from collections.abc import Callable

from regard.attention.divided import Divided
from regard.attention.mechanism import Mechanism
from regard.attention.recipes.content import (
    bahdanau,
    key_value,
    key_value_predict,
    luong,
    self_pooling,
    show_attend_tell,
    vinyals,
)
from regard.attention.recipes.location import coverage, dynamic_convolution, gmm, location_sensitive, plane_coverage
from regard.attention.recipes.monotonic import forward_attention, milk, mocha, monotonic, stepwise_monotonic
from regard.attention.recipes.multi_head import multi_head, self_attention

__all__ = [
    "RECIPES",
    "bahdanau",
    "coverage",
    "dynamic_convolution",
    "forward_attention",
    "gmm",
    "key_value",
    "key_value_predict",
    "location_sensitive",
    "luong",
    "milk",
    "mocha",
    "monotonic",
    "multi_head",
    "plane_coverage",
    "self_attention",
    "self_pooling",
    "show_attend_tell",
    "stepwise_monotonic",
    "vinyals",
]

RECIPES: dict[str, Callable[..., Mechanism | Divided]] = {name: globals()[name] for name in __all__ if name.islower()}
"""Every recipe by its name in configurations."""
