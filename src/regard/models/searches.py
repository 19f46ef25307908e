"""Decoders that take the steps of a search in another way than by their `step`: Transformers, with a cache."""

from __future__ import annotations

from typing import Any

from regard.attention.contract import Tree


def for_search(decoder: Any, memory: Tree, rows: int) -> tuple[Any, Tree]:
    """What takes the steps of a search of about so many rows, and the memory for it.

    A decoder's class may have a method of this name; without it, or where the instance has a `step` of its own, the
    decoder and its memory are taken as they are.
    """
    method = getattr(type(decoder), "for_search", None)
    if method is None or "step" in getattr(decoder, "__dict__", {}):
        return decoder, memory
    taken: tuple[Any, Tree] = method(decoder, memory, rows)
    return taken
