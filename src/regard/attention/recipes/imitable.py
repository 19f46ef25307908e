"""Recipes that can imitate another implementation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from regard.errors import UnsupportedError

P = ParamSpec("P")
MechanismT = TypeVar("MechanismT")


def imitable(recipe: Callable[P, MechanismT]) -> Callable[P, MechanismT]:
    """The recipe; with the option `like` it is built by `regard.attention.peers` as another implementation has it."""

    @wraps(recipe)
    def build(*args: P.args, **options: P.kwargs) -> MechanismT:
        like: Any = options.pop("like", None)
        if like is None:
            return recipe(*args, **options)
        from regard.attention.peers import IMITATIONS

        imitations = IMITATIONS[recipe.__name__]
        if like not in imitations:
            raise UnsupportedError(f"like={like!r} must be {' or '.join(map(repr, imitations))}, or None.")
        mechanism: Any = imitations[like](**options)
        return mechanism

    return build
