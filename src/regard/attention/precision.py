"""Memories that were prepared under autocast and are used outside of it."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from regard import tree
from regard.attention.contract import Memory

TreeT = TypeVar("TreeT")


def widened(memory: TreeT, like: Tensor | None) -> TreeT:
    """The tree, whose half types become the type of `like` if that is wider and autocast is off.

    So a memory keeps the type that it was prepared in, half under autocast, and can be used inside and outside of it.

    Args:
        like: a query or a weight; None if there is no weight to read, as in a quantised module.
    """
    if like is None or like.dtype.itemsize < 4 or torch.is_autocast_enabled(like.device.type):
        return memory
    if isinstance(memory, Memory) and memory.read.dtype == like.dtype and _type_of(memory.score) == like.dtype:
        return memory
    if not any(_is_half(leaf) for leaf in tree.leaves(memory)):
        return memory
    return tree.map(lambda leaf: leaf.to(like.dtype) if _is_half(leaf) else leaf, memory)


def _type_of(leaf: object) -> torch.dtype | None:
    return leaf.dtype if isinstance(leaf, Tensor) else None


def _is_half(leaf: Tensor) -> bool:
    return leaf.dtype in (torch.bfloat16, torch.float16)
