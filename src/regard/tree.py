"""Trees of tensors, the form of memories and states.

A leaf is a tensor or None; a node is a tuple, a dict or a frozen dataclass. Nothing else is allowed in a tree, so
that any state is reordered with the hypotheses of a beam by one `index_select` per leaf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

TreeT = TypeVar("TreeT")


def map(function: Callable[..., Tensor], tree: TreeT, *others: Any) -> TreeT:
    """Applies `function` to the tensors of one tree, or of several of the same structure; None stays None.

    >>> map(lambda x: x + 1, (torch.zeros(2), None, {"a": torch.ones(1)}))
    (tensor([1., 1.]), None, {'a': tensor([2.])})
    """
    result: Any
    if tree is None:
        return tree
    if isinstance(tree, Tensor):
        result = function(tree, *others)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree)]
        result = type(tree)(
            **{name: map(function, getattr(tree, name), *(getattr(o, name) for o in others)) for name in names}
        )
    elif isinstance(tree, dict):
        result = {key: map(function, value, *(o[key] for o in others)) for key, value in tree.items()}
    elif isinstance(tree, tuple):
        parts = (map(function, value, *(o[i] for o in others)) for i, value in enumerate(tree))
        result = type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    else:
        raise TypeError(
            f"A tree has tensors, None, tuples, dicts and dataclasses; got {type(tree).__name__}. "
            "Use a tensor (R,) for a count per row, and an attribute of the module for constants."
        )
    return result


def change(tree: TreeT, kind: type | tuple[type, ...], function: Callable[[Any], Any]) -> TreeT:
    """A tree whose nodes of some types are replaced by `function` of them.

    >>> change((1, "a", (2,)), int, lambda node: node + 1)
    (2, 'a', (3,))
    """
    result: Any = tree
    if isinstance(tree, kind):
        result = function(tree)
    elif isinstance(tree, tuple):
        parts = (change(value, kind, function) for value in tree)
        result = type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    elif isinstance(tree, dict):
        result = {key: change(value, kind, function) for key, value in tree.items()}
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree)]
        result = type(tree)(**{name: change(getattr(tree, name), kind, function) for name in names})
    return cast(TreeT, result)


def leaves(tree: Any) -> Iterator[Tensor]:
    """The tensors of a tree, in order."""
    tensors: list[Tensor] = []

    def add(leaf: Tensor) -> Tensor:
        tensors.append(leaf)
        return leaf

    map(add, tree)
    return iter(tensors)


def rows(tree: Any) -> int:
    """The common number of rows (dimension 0) of all leaves of a tree.

    Raises:
        ValueError: if the leaves differ, or there are no tensors.

    >>> rows((None, torch.zeros(3, 5)))
    3
    """
    sizes = [leaf.shape[0] if leaf.dim() else None for leaf in leaves(tree)]
    if not sizes or any(size is None or size != sizes[0] for size in sizes):  # symbols of an export have no hash
        raise ValueError(
            f"The leaves of a tree must have the same number of rows (dimension 0); got {set(sizes) or 'none'}."
        )
    return cast(int, sizes[0])


def reorder(tree: TreeT, index: Tensor) -> TreeT:
    """Takes rows of every leaf by a flat, sentence-major index; returns the tree itself if nothing changes.

    Args:
        tree: leaves with R rows.
        index: (R',) integers below R, in which a row may be repeated or missing, as when hypotheses follow their
            parents or finished sentences are dropped.
    """
    first = next(leaves(tree), None)
    if first is None:
        return tree
    if index.shape[0] == first.shape[0] and torch.equal(index, torch.arange(len(index), device=index.device)):
        return tree
    return map(lambda leaf: leaf.index_select(0, index), tree)


def to(tree: TreeT, *args: Any, **kwargs: Any) -> TreeT:
    """Moves every leaf, as `Tensor.to` does; a floating type is applied only to floating leaves."""
    floating = any(isinstance(a, torch.dtype) and a.is_floating_point for a in (*args, *kwargs.values()))
    return map(lambda leaf: leaf.to(*args, **kwargs) if leaf.is_floating_point() or not floating else leaf, tree)


def detach(tree: TreeT) -> TreeT:
    """Detaches every leaf from the graph."""
    return map(Tensor.detach, tree)
