"""Steps that attend only to the positions of the window, at the cost of its width instead of S.

The positions of a window with a `width` W do not depend on the energies. Their keys and values are gathered for each
row (and for each head, if each has its own window), and score, alignment and read receive an ordinary memory of R rows
and W positions. All of them must be `is_positionwise`. The weights, if requested, are scattered among all S positions.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard import tree
from regard.attention.contract import Memory, Parts
from regard.shapes import Float, Int, num_hypotheses

COPY_COST, MAX_SHARING, OVERHEAD = 4, 8, 128
"""The cost of a local step in units of one position of a full step. A gathered position costs `COPY_COST`, as it is
copied, times the rows that share a sentence, at most `MAX_SHARING`, as a full step computes these in one matrix
product; `OVERHEAD` is added. Measured by `benchmarks/windows.py`."""


def unsupported_reason(parts: Parts) -> str | None:
    """Why the steps of a mechanism with these parts cannot be local, or None."""
    window = parts.window
    for part in parts:
        if part is not window and not part.is_positionwise:
            return f"{type(part).__name__} is not positionwise and needs all of them"
    if window.width is None and not window.trains_differently:
        return f"{type(window).__name__} has no width and may allow any number of them"
    return None


def unsupported_now(parts: Parts, num_positions: int, rows_per_sentence: int, narrow: bool | None) -> str | None:
    """Why a step attends to all S positions, or None if it is local.

    Args:
        narrow: the option of `Mechanism`.
    """
    if narrow is False:
        return "narrow=False"
    if (reason := unsupported_reason(parts)) is not None:
        return reason
    width = parts.window.width
    if width is None:
        return f"{type(parts.window).__name__} does not hold in training"
    if narrow:
        return None
    if not isinstance(num_positions, int):
        return "their number is not known while a program for any S is exported"
    if (cost := OVERHEAD + COPY_COST * width * min(rows_per_sentence, MAX_SHARING)) > num_positions:
        return f"gathering {width} would cost as much as attending to {cost}"
    return None


def find(start: Int[Tensor, "R G"], width: int, num_positions: int) -> Int[Tensor, "R G W"]:
    """The W positions from `start` on, or the first or last W if these pass an end; all S if S < W."""
    if isinstance(num_positions, int):  # otherwise a program for any S ≥ W is exported
        width = min(width, num_positions)
    first = start.clamp(max=num_positions - width).clamp(min=0)
    return first[..., None] + torch.arange(width, device=start.device)


def take(memory: Memory, positions: Int[Tensor, "#R #G W"]) -> Memory:
    """A memory of R rows that holds only these positions, without mask, pace and the window's field."""
    return tree.map(lambda leaf: _take(leaf, positions), replace(memory, window=None, mask=None, pace=None))


def _take(state: Tensor, positions: Int[Tensor, "#R #G W"]) -> Tensor:
    """(B, S, …) as (R, W, …); (B, S, G, …) as (R, W, H, …) when each head has its own positions."""
    num_rows, num_heads, width = positions.shape
    sentence = sentences(num_rows, state.shape[0], positions.device)[:, None, None]
    if state.stride(0) < state.stride(1):  # time-major, as recurrent encoders return it: flattened without a copy
        state, index = state.transpose(0, 1), positions * state.shape[0] + sentence
    else:
        index = sentence * state.shape[1] + positions
    if num_heads == 1:
        return state.flatten(0, 1).index_select(0, index.flatten()).unflatten(0, (num_rows, width))
    shared = state.shape[2]
    head = torch.arange(num_heads, device=positions.device)[:, None] // (num_heads // shared)
    index = (index * shared + head).transpose(1, 2)
    return state.flatten(0, 2).index_select(0, index.flatten()).unflatten(0, (num_rows, width, num_heads))


def take_mask(mask: Tensor, positions: Int[Tensor, "#R #G W"]) -> Tensor:
    """(B, S) as (R, 1 or H, W)."""
    return mask[sentences(positions.shape[0], mask.shape[0], positions.device)[:, None, None], positions]


def scatter(
    weights: Float[Tensor, "R H W"], positions: Int[Tensor, "#R #G W"], num_positions: int
) -> Float[Tensor, "R H S"]:
    """Weights in their positions among all S, and exactly 0 elsewhere."""
    everywhere = weights.new_zeros(*weights.shape[:2], num_positions)
    return everywhere.scatter(-1, positions.expand_as(weights), weights)


def sentences(num_rows: int, num_sentences: int, device: torch.device) -> Int[Tensor, " R"]:
    """The sentence whose memory each row reads."""
    return torch.arange(num_rows, device=device) // num_hypotheses(num_rows, num_sentences)
