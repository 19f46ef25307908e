"""What is made of a memory: the alignment before the first step, and the memory in the type of a query."""

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
    """The weights that the first step takes as those of the step before it.

    Args:
        kind: `zeros`; `uniform` over the positions that may be attended to; or all on the `first` of them. A row
            without any such position gets zeros.
        memory: its mask says which positions may be attended to.
        num_rows, num_heads: R and H.

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
    """The memory with a mask, which is True everywhere if it had none."""
    if memory.mask is not None:
        return memory
    return replace(memory, mask=memory.read.new_ones(memory.read.shape[:2], dtype=torch.bool))


def with_room(memory: Memory, count: int) -> Memory:
    """The memory with room for further positions, which `Mechanism.extend` fills; until then they are masked.

    >>> with_room(Memory(read=torch.ones(1, 1, 1, 1)), 2).mask
    tensor([[ True, False, False]])
    """
    wide = tree.map(
        lambda leaf: torch.cat([leaf, leaf.new_zeros(len(leaf), count, *leaf.shape[2:])], 1), with_mask(memory)
    )
    return replace(wide, filled=memory.read.new_full((memory.num_sentences,), memory.num_positions, dtype=torch.long))


def widened(memory: TreeT, like: Tensor | None) -> TreeT:
    """The tree, whose half types become the type of `like` if that is wider and autocast is off.

    So a memory keeps the type that it was prepared in, half under autocast, and can be used inside and outside of it.

    Args:
        like: a query or a weight; None if there is no weight to read, as in a quantised module.
    """
    if like is None or like.dtype.itemsize < 4 or autocasts(like.device.type):
        return memory
    if (
        isinstance(memory, Memory)
        and memory.read.dtype == like.dtype
        and getattr(memory.score, "dtype", None) == like.dtype
    ):
        return memory
    if not any(_is_half(state) for state in tree.leaves(memory)):
        return memory
    return tree.map(lambda leaf: leaf.to(like.dtype) if _is_half(leaf) else leaf, memory)


def _is_half(state: Tensor) -> bool:
    return state.dtype in (torch.bfloat16, torch.float16)
