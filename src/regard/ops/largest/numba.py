"""The largest entries by one pass over each row: the largest of every lane, then the few lanes that matter.

A lane is every `LANES`-th entry, so that the pass compares vectors and nothing within them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.compiled.order import rank
from regard.ops.threads import spread

LANES = 128
_RANKS = {torch.float32: np.empty(0, np.int32), torch.float64: np.empty(0, np.int64)}


def largest(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As the operation, for rows on the CPU."""
    rows, width = values.shape
    count = min(count, width)
    found = values.new_empty(rows, count)
    places = torch.empty(rows, count, dtype=torch.long)
    forbidden = -1 if without is None else without
    given = (values.contiguous().numpy(), forbidden, found.numpy(), places.numpy(), _RANKS[values.dtype])
    spread(_largest, given, rows, 2 * rows * width)
    return found, places


@compiled
def _largest(values: Any, without: int, found: Any, places: Any, ranks: Any, start: int, stop: int) -> None:
    """found and places (R, count) of values (R, N); the entry `without` counts as -inf."""
    size, count = values.shape[1], found.shape[1]
    lanes = min(LANES, size)
    least = rank(values.dtype.type(-np.inf))
    tops, best = np.empty(lanes, ranks.dtype), np.empty(count, ranks.dtype)
    for row in range(start, stop if count else start):
        x = values[row]
        for lane in range(lanes):
            tops[lane] = rank(x[lane])
        for first in range(lanes, size - lanes + 1, lanes):
            part = x[first : first + lanes]
            for lane in range(lanes):
                mine = rank(part[lane])
                tops[lane] = mine if mine > tops[lane] else tops[lane]
        for i in range(size - size % lanes, size):
            mine = rank(x[i])
            tops[i % lanes] = mine if mine > tops[i % lanes] else tops[i % lanes]
        if without >= 0:
            top = least
            for i in range(without % lanes, size, lanes):
                mine = least if i == without else rank(x[i])
                top = mine if mine > top else top
            tops[without % lanes] = top
        floor = least
        if lanes >= count:  # so many lanes have a number at least as large: what is smaller cannot be chosen
            filled = 0
            for lane in range(lanes):
                if filled < count or tops[lane] > best[filled - 1]:
                    at = min(filled, count - 1)
                    while at > 0 and best[at - 1] < tops[lane]:
                        best[at] = best[at - 1]
                        at -= 1
                    best[at] = tops[lane]
                    filled = min(filled + 1, count)
            floor = best[count - 1]
        filled = 0
        for lane in range(lanes):
            if tops[lane] < floor or (filled == count and tops[lane] < best[count - 1]):
                continue
            for i in range(lane, size, lanes):
                mine = least if i == without else rank(x[i])
                if mine < floor:
                    continue
                last = count - 1
                if filled == count and (mine < best[last] or (mine == best[last] and i > places[row, last])):
                    continue
                at = min(filled, last)
                while at > 0 and (best[at - 1] < mine or (best[at - 1] == mine and places[row, at - 1] > i)):
                    best[at] = best[at - 1]
                    places[row, at] = places[row, at - 1]
                    at -= 1
                best[at] = mine
                places[row, at] = i
                filled = min(filled + 1, count)
        for place in range(count):
            i = places[row, place]
            found[row, place] = -np.inf if i == without else x[i]
