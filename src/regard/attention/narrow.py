"""Looking at few positions: a step that costs the width of the window instead of S.

A window with a `width` W knows where it will be before there are energies. Keys and values of those W positions are
taken out for each row (and head, if each has its own window), and score, alignment and read get a memory of R rows and
W positions, which is a memory like any other. Only parts that say `is_positionwise` can be given one. Weights are put
back into their S places when somebody asks for them.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard import tree
from regard.attention.contract import Memory, Parts
from regard.shapes import Float, Int, num_hypotheses

COPY, SHARED, OVERHEAD = 4, 8, 128
"""What looking at few positions costs, in positions looked at otherwise: each that is taken out counts for `COPY`,
since it is copied, and as often as rows share a sentence, up to `SHARED` times, since one matrix product would serve
them all; `OVERHEAD` comes on top. Measured by `benchmarks/windows.py`."""


def ineligible(parts: Parts) -> str | None:
    """Why a mechanism of these parts can never look at few positions, or None."""
    window = parts.window
    for part in parts:
        if part is not window and not part.is_positionwise:
            return f"{type(part).__name__} is not positionwise and needs all of them"
    if window.width is None and not window.trains_differently:
        return f"{type(window).__name__} has no width and may allow any number of them"
    return None


def ineligible_now(parts: Parts, num_positions: int, rows_per_sentence: int, asked: bool | None) -> str | None:
    """Why a step looks at all S positions, or None where it looks only at those of the window.

    Args:
        asked: True or False decide, as far as it is possible; None weighs the work.
    """
    if asked is False:
        return "narrow=False was asked for"
    if (reason := ineligible(parts)) is not None:
        return reason
    width = parts.window.width
    if width is None:
        return f"{type(parts.window).__name__} does not hold in training"
    if asked:
        return None
    if not isinstance(num_positions, int):
        return "their number is not known while a program for any S is exported"
    if (cost := OVERHEAD + COPY * width * min(rows_per_sentence, SHARED)) > num_positions:
        return f"taking out {width} would cost as much as looking at {cost}"
    return None


def find(start: Int[Tensor, "R G"], width: int, num_positions: int) -> Int[Tensor, "R G W"]:
    """The W places from `start` on, or the first or last W where these pass an end; all S if there are fewer."""
    if isinstance(num_positions, int):  # otherwise a program for any number of W or more is being exported
        width = min(width, num_positions)
    first = start.clamp(max=num_positions - width).clamp(min=0)
    return first[..., None] + torch.arange(width, device=start.device)


def take(memory: Memory, places: Int[Tensor, "#R #G W"]) -> Memory:
    """A memory of R rows that holds only these places; the window keeps its own, and the mask is left out."""
    taken: Memory = tree.map(lambda leaf: _take(leaf, places), replace(memory, window=None, mask=None))
    return taken


def _take(leaf: Tensor, places: Int[Tensor, "#R #G W"]) -> Tensor:
    """(B, S, …) as (R, W, …); (B, S, G, …) as (R, W, H, …) when each head has its own places."""
    num_rows, num_heads, width = places.shape
    sentence = sentences(num_rows, leaf.shape[0], places.device)[:, None, None]
    if leaf.stride(0) < leaf.stride(1):  # time-major, as recurrent encoders leave it: flattened as it lies, not copied
        leaf, index = leaf.transpose(0, 1), places * leaf.shape[0] + sentence
    else:
        index = sentence * leaf.shape[1] + places
    if num_heads == 1:
        return leaf.flatten(0, 1).index_select(0, index.flatten()).unflatten(0, (num_rows, width))
    shared = leaf.shape[2]
    head = torch.arange(num_heads, device=places.device)[:, None] // (num_heads // shared)
    index = (index * shared + head).transpose(1, 2)
    return leaf.flatten(0, 2).index_select(0, index.flatten()).unflatten(0, (num_rows, width, num_heads))


def take_mask(mask: Tensor, places: Int[Tensor, "#R #G W"]) -> Tensor:
    """(B, S) as (R, 1 or H, W)."""
    return mask[sentences(places.shape[0], mask.shape[0], places.device)[:, None, None], places]


def spread(
    weights: Float[Tensor, "R H W"], places: Int[Tensor, "#R #G W"], num_positions: int
) -> Float[Tensor, "R H S"]:
    """Weights in their places among all S, and exactly 0 elsewhere."""
    everywhere = weights.new_zeros(*weights.shape[:2], num_positions)
    return everywhere.scatter(-1, places.expand_as(weights), weights)


def sentences(num_rows: int, num_sentences: int, device: torch.device) -> Int[Tensor, " R"]:
    """Whose memory each row reads."""
    return torch.arange(num_rows, device=device) // num_hypotheses(num_rows, num_sentences)
