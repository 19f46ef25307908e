"""The largest entries by one pass over each row: the largest of every block, then the few blocks that matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.compiled.order import rank
from regard.ops.threads import spread

BLOCK = 32
"""Entries a block."""


def largest(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As the operation, for rows on the CPU."""
    rows, width = values.shape
    count = min(count, width)
    found = values.new_empty(rows, count)
    places = torch.empty(rows, count, dtype=torch.long)
    given = (values.contiguous().numpy(), -1 if without is None else without, found.numpy(), places.numpy())
    spread(lambda start, stop: _largest(*given, start, stop), rows, rows * width)
    return found, places


@compiled
def _largest(values: Any, without: int, found: Any, places: Any, start: int, stop: int) -> None:
    """found and places (R, count) of values (R, N); the entry `without` counts as -inf."""
    size, count = values.shape[1], found.shape[1]
    blocks = -(-size // BLOCK)
    least = rank(values.dtype.type(-np.inf))
    tops, best = np.empty(blocks, np.int64), np.empty(count, np.int64)
    for row in range(start, stop if count else start):
        x = values[row]
        for block in range(size // BLOCK):
            part = x[block * BLOCK : (block + 1) * BLOCK]
            top = least
            for i in range(BLOCK):
                mine = rank(part[i])
                top = mine if mine > top else top
            tops[block] = top
        for block in range(blocks):
            if block == size // BLOCK or block == without // BLOCK:
                top = least
                for i in range(block * BLOCK, min((block + 1) * BLOCK, size)):
                    mine = least if i == without else rank(x[i])
                    top = mine if mine > top else top
                tops[block] = top
        floor = least
        if blocks >= count:  # so many blocks have a number at least as large: what is smaller cannot be chosen
            filled = 0
            for block in range(blocks):
                if filled < count or tops[block] > best[filled - 1]:
                    at = min(filled, count - 1)
                    while at > 0 and best[at - 1] < tops[block]:
                        best[at] = best[at - 1]
                        at -= 1
                    best[at] = tops[block]
                    filled = min(filled + 1, count)
            floor = best[count - 1]
        filled = 0
        for block in range(blocks):
            if tops[block] < floor or (filled == count and tops[block] <= best[count - 1]):
                continue
            for i in range(block * BLOCK, min((block + 1) * BLOCK, size)):
                mine = least if i == without else rank(x[i])
                if mine >= floor and (filled < count or mine > best[count - 1]):
                    at = min(filled, count - 1)
                    while at > 0 and best[at - 1] < mine:
                        best[at] = best[at - 1]
                        places[row, at] = places[row, at - 1]
                        at -= 1
                    best[at] = mine
                    places[row, at] = i
                    filled = min(filled + 1, count)
        for place in range(count):
            i = places[row, place]
            found[row, place] = -np.inf if i == without else x[i]
