"""The catalogue: published mechanisms, each a few lines that compose four parts."""

from __future__ import annotations

from collections.abc import Callable

from regard.attention.mechanism import Mechanism
from regard.attention.recipes.bahdanau import bahdanau
from regard.attention.recipes.gmm import gmm
from regard.attention.recipes.location_sensitive import location_sensitive
from regard.attention.recipes.luong import luong
from regard.attention.recipes.mocha import mocha
from regard.attention.recipes.multi_head import multi_head
from regard.attention.recipes.self_pooling import self_pooling

RECIPES: dict[str, Callable[..., Mechanism]] = {
    recipe.__name__: recipe for recipe in (bahdanau, gmm, location_sensitive, luong, mocha, multi_head, self_pooling)
}
"""Every recipe by its name in configurations."""

__all__ = [
    "RECIPES",
    "bahdanau",
    "gmm",
    "location_sensitive",
    "luong",
    "mocha",
    "multi_head",
    "self_pooling",
]
