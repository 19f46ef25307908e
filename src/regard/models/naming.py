"""The names of a decoder's alignments, and of the positions that were chosen for them."""

from __future__ import annotations

from dataclasses import fields

from torch import Tensor

from regard.attention import Parallel
from regard.attention.alignments import Choice
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


def chosen(name: str, auxiliary: Tree) -> dict[str, Tensor]:
    """The fields of a `Choice` of hard attention, as name.index and so on; those of several memories as name.0.index.

    >>> chosen("attention", (None, None))
    {}
    """
    if isinstance(auxiliary, tuple):
        inner = (chosen(f"{name}.{index}", one) for index, one in enumerate(auxiliary))
        return {key: tensor for one in inner for key, tensor in one.items()}
    if not isinstance(auxiliary, Choice):
        return {}
    return {f"{name}.{field.name}": getattr(auxiliary, field.name) for field in fields(auxiliary)}


def main_name(name: str, attention: AbstractAttention | None) -> str:
    """The name of the alignment that is shown: the only one, or that of the first memory."""
    return f"{name}.0" if isinstance(attention, Parallel) else name
