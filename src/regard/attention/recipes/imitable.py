"""Recipes that can be as another implementation is."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from regard.errors import UnsupportedError

P = ParamSpec("P")
MechanismT = TypeVar("MechanismT")


def imitable(recipe: Callable[P, MechanismT]) -> Callable[P, MechanismT]:
    """The recipe, whose option `like` names another implementation; `regard.attention.peers` builds that one's."""

    @wraps(recipe)
    def build(*args: P.args, **options: P.kwargs) -> MechanismT:
        like: Any = options.pop("like", None)
        if like is None:
            return recipe(*args, **options)
        from regard.attention.peers import IMITATIONS

        known = IMITATIONS[recipe.__name__]
        if like not in known:
            raise UnsupportedError(f"like={like!r} must be {' or '.join(map(repr, known))}, or None.")
        made: Any = known[like](**options)
        return made

    return build
