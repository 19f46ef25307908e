"""Recipes with variants of other programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from regard.errors import UnsupportedError
from regard.interop import variants

P = ParamSpec("P")
MechanismT = TypeVar("MechanismT")


def imitable(recipe: Callable[P, MechanismT]) -> Callable[P, MechanismT]:
    """The recipe, whose option `like` builds the variant of another program (`regard.interop.variants`)."""
    builders = variants.RECIPE_VARIANTS[recipe.__name__]

    @wraps(recipe)
    def build(*args: P.args, **options: P.kwargs) -> MechanismT:
        like: Any = options.pop("like", None)
        if like is None:
            return recipe(*args, **options)
        if like not in builders:
            raise UnsupportedError(f"like={like!r} must be {' or '.join(map(repr, builders))}, or None.")
        mechanism: MechanismT = builders[like](**options)
        return mechanism

    build.__annotations__ = {**recipe.__annotations__, "like": variants.names_of(builders) | None}
    return build
