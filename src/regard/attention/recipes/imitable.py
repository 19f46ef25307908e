"""Recipes of which other programs have variants."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from regard.errors import UnsupportedError
from regard.interop import variants

P = ParamSpec("P")
MechanismT = TypeVar("MechanismT")


def imitable(recipe: Callable[P, MechanismT]) -> Callable[P, MechanismT]:
    """The recipe; with the option `like` it is built as another program has it (`regard.interop.variants`)."""
    known = variants.RECIPES[recipe.__name__]

    @wraps(recipe)
    def build(*args: P.args, **options: P.kwargs) -> MechanismT:
        like: Any = options.pop("like", None)
        if like is None:
            return recipe(*args, **options)
        if like not in known:
            raise UnsupportedError(f"like={like!r} must be {' or '.join(map(repr, known))}, or None.")
        mechanism: MechanismT = known[like](**options)
        return mechanism

    build.__annotations__ = {**recipe.__annotations__, "like": variants.names_of(known) | None}
    return build
