"""Functions of a memory: the alignment before the first step, room for further positions, and floating types."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from regard import tree
from regard.attention.contract import Memory
from regard.ops.autograd import autocasts
from regard.shapes import Float, num_hypotheses

FirstAlignment = Literal["zeros", "uniform", "first"]
TreeT = TypeVar("TreeT")


def first_alignment(kind: FirstAlignment, memory: Memory, num_rows: int, num_heads: int) -> Float[Tensor, "R H S"]:
    """The weights before the first step.

    Args:
        kind: `zeros`; `uniform` over the positions that may be attended to; or all on the `first` of them. A row
            without any such position gets zeros.

    Raises:
        ValueError: for any other kind.

    >>> memory = Memory(read=torch.zeros(1, 3, 1, 1), mask=torch.tensor([[True, True, False]]))
    >>> first_alignment("uniform", memory, 1, 1)
    tensor([[[0.5000, 0.5000, 0.0000]]])
    """
    if kind not in get_args(FirstAlignment):
        raise ValueError(f"first_alignment={kind!r} must be one of {', '.join(get_args(FirstAlignment))}.")
    values, sentences, num_positions = memory.read, memory.num_sentences, memory.num_positions
    if kind == "zeros":
        return values.new_zeros(num_rows, num_heads, num_positions)
    mask = values.new_ones(sentences, num_positions, dtype=torch.bool) if memory.mask is None else memory.mask
    if kind == "uniform":
        weights = mask.to(values.dtype) / mask.sum(1, keepdim=True).clamp(min=1)
    else:
        weights = (mask & (mask.cumsum(1) == 1)).to(values.dtype)
    hypotheses = num_hypotheses(num_rows, sentences)
    shared = weights[:, None, None].expand(-1, hypotheses, num_heads, -1)
    return shared.reshape(num_rows, num_heads, num_positions)


def with_mask(memory: Memory) -> Memory:
    """The memory with its mask, by default True everywhere."""
    if memory.mask is not None:
        return memory
    return replace(memory, mask=memory.read.new_ones(memory.read.shape[:2], dtype=torch.bool))


def with_room(memory: Memory, count: int) -> Memory:
    """The memory with masked room for further positions, which `Mechanism.extend` fills.

    >>> with_room(Memory(read=torch.ones(1, 1, 1, 1)), 2).mask
    tensor([[ True, False, False]])
    """
    wide = tree.map(
        lambda leaf: torch.cat([leaf, leaf.new_zeros(len(leaf), count, *leaf.shape[2:])], 1), with_mask(memory)
    )
    return replace(wide, filled=memory.read.new_full((memory.num_sentences,), memory.num_positions, dtype=torch.long))


def widened(memory: TreeT, like: Tensor | None) -> TreeT:
    """The tree with its half types cast to the type of `like`, if that is wider and autocast is off.

    A memory keeps the type that it was prepared in, half under autocast, and can be used inside and outside of it.

    Args:
        like: a query or a weight; None if a module has none, as when quantised.
    """
    if like is None or like.dtype.itemsize < 4 or autocasts(like.device.type):
        return memory
    if (
        isinstance(memory, Memory)
        and memory.read.dtype == like.dtype
        and getattr(memory.score, "dtype", None) == like.dtype
    ):
        return memory
    half = torch.bfloat16, torch.float16
    if not any(leaf.dtype in half for leaf in tree.leaves(memory)):
        return memory
    return tree.map(lambda leaf: leaf.to(like.dtype) if leaf.dtype in half else leaf, memory)
