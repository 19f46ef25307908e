"""The catalogue of published mechanisms, each a few lines that compose four parts."""

from __future__ import annotations

from collections.abc import Callable

from regard.attention.divided import Divided
from regard.attention.mechanism import Mechanism
from regard.attention.recipes.bahdanau import bahdanau
from regard.attention.recipes.coverage import coverage
from regard.attention.recipes.dynamic_convolution import dynamic_convolution
from regard.attention.recipes.forward_attention import forward_attention
from regard.attention.recipes.gmm import gmm
from regard.attention.recipes.key_value import key_value, key_value_predict
from regard.attention.recipes.location_sensitive import location_sensitive
from regard.attention.recipes.luong import luong
from regard.attention.recipes.milk import milk
from regard.attention.recipes.mocha import mocha
from regard.attention.recipes.monotonic import monotonic
from regard.attention.recipes.multi_head import multi_head
from regard.attention.recipes.plane_coverage import plane_coverage
from regard.attention.recipes.self_attention import self_attention
from regard.attention.recipes.self_pooling import self_pooling
from regard.attention.recipes.show_attend_tell import show_attend_tell
from regard.attention.recipes.stepwise_monotonic import stepwise_monotonic
from regard.attention.recipes.vinyals import vinyals

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
