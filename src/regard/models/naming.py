"""The names of a decoder's alignments."""

from __future__ import annotations

from torch import Tensor

from regard.attention import Parallel
from regard.attention.contract import Tree
from regard.attention.verbs import AbstractAttention


def named(name: str, weights: Tree) -> dict[str, Tensor]:
    """An alignment by its name; a tuple of those of several memories as name.0, name.1, …; nothing for None.

    >>> named("attention", None)
    {}
    """
    if weights is None:
        return {}
    if isinstance(weights, tuple):
        return {f"{name}.{index}": weight for index, weight in enumerate(weights)}
    return {name: weights}


def main_name(name: str, attention: AbstractAttention | None) -> str:
    """The name of the alignment that is shown: the only one, or that of the first memory."""
    return f"{name}.0" if isinstance(attention, Parallel) else name
