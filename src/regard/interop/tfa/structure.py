"""Structures of tensors as `tf.nest` has them, with tensor arrays as leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import Tensor

from regard.interop.tfa.arrays import TensorArray


def map_structure(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """Applies a function to the leaves of a structure, or of several of the same form.

    Nodes are tuples, lists, dicts and dataclasses; leaves are what is none of these, and tensor arrays. None stays
    None.

    >>> map_structure(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    if structure is None:
        return None
    if isinstance(structure, Tensor | TensorArray):
        return function(structure, *others)
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        names = [field.name for field in dataclasses.fields(structure)]
        parts = {
            name: map_structure(function, getattr(structure, name), *(getattr(o, name) for o in others))
            for name in names
        }
        return dataclasses.replace(structure, **parts)
    if isinstance(structure, dict):
        return {key: map_structure(function, value, *(o[key] for o in others)) for key, value in structure.items()}
    if isinstance(structure, tuple | list):
        mapped = [map_structure(function, value, *(o[i] for o in others)) for i, value in enumerate(structure)]
        return type(structure)(*mapped) if hasattr(structure, "_fields") else type(structure)(mapped)
    return function(structure, *others)


def flatten(structure: Any) -> list[Any]:
    """The leaves of a structure, in order.

    >>> flatten((1, {"a": [2, None]}))
    [1, 2]
    """
    found: list[Any] = []
    map_structure(found.append, structure)
    return found
