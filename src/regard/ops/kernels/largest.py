"""The largest entries of rows: the largest of every lane in one pass, then a search of few lanes.

A lane is every `LANES`-th entry, so that the pass compares vectors.

    tops_lane = max of ordinal(x_i) over i = lane, lane + LANES, …   the pass, over N entries
    floor = the `count`-th largest of tops                           at least `count` entries are ≥ floor
    best, indices = insertion of the entries ≥ floor                 in the lanes whose top is ≥ floor

Entries are compared as ordinals, integers of the same order (`regard.ops.kernels.compiled.order`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.kernels.compiled import compiled
from regard.ops.kernels.compiled.order import ordinal
from regard.ops.threads import parallel_for

LANES = 128
_ORDINALS = {torch.float32: np.empty(0, np.int32), torch.float64: np.empty(0, np.int64)}


def largest(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As `ops.largest`."""
    rows, width = values.shape
    count = min(count, width)
    entries = values.new_empty(rows, count)
    indices = torch.empty(rows, count, dtype=torch.long)
    forbidden = -1 if without is None else without
    arguments = (values.contiguous().numpy(), forbidden, entries.numpy(), indices.numpy(), _ORDINALS[values.dtype])
    parallel_for(_largest, arguments, rows, 2 * rows * width)
    return entries, indices


@compiled
def _largest(values: Any, without: int, entries: Any, indices: Any, ordinals: Any, start: int, stop: int) -> None:
    """entries and indices (R, count) of values (R, N); the entry `without` counts as -inf.

    `ordinals` is empty, of the type of ordinals.
    """
    size, count = values.shape[1], entries.shape[1]
    lanes = min(LANES, size)
    least = ordinal(values.dtype.type(-np.inf))
    tops, best = np.empty(lanes, ordinals.dtype), np.empty(count, ordinals.dtype)
    for row in range(start, stop if count else start):
        x = values[row]
        # the largest of every lane: whole vectors of lanes, then the rest
        for lane in range(lanes):
            tops[lane] = ordinal(x[lane])
        for first in range(lanes, size - lanes + 1, lanes):
            part = x[first : first + lanes]
            for lane in range(lanes):
                here = ordinal(part[lane])
                tops[lane] = here if here > tops[lane] else tops[lane]
        for i in range(size - size % lanes, size):
            here = ordinal(x[i])
            tops[i % lanes] = here if here > tops[i % lanes] else tops[i % lanes]
        # the lane of `without` is searched again, which is faster than a test in the pass
        if without >= 0:
            top = least
            for i in range(without % lanes, size, lanes):
                here = least if i == without else ordinal(x[i])
                top = here if here > top else top
            tops[without % lanes] = top
        # floor: the `count`-th largest top, by insertion into `best` (descending); smaller entries are not chosen
        floor = least
        if lanes >= count:
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
        # the entries of the lanes that reach the floor, by insertion into `best`, equal ones by their indices
        filled = 0
        for lane in range(lanes):
            if tops[lane] < floor or (filled == count and tops[lane] < best[count - 1]):
                continue
            for i in range(lane, size, lanes):
                here = least if i == without else ordinal(x[i])
                if here < floor:
                    continue
                last = count - 1
                if filled == count and (here < best[last] or (here == best[last] and i > indices[row, last])):
                    continue
                at = min(filled, last)
                while at > 0 and (best[at - 1] < here or (best[at - 1] == here and indices[row, at - 1] > i)):
                    best[at] = best[at - 1]
                    indices[row, at] = indices[row, at - 1]
                    at -= 1
                best[at] = here
                indices[row, at] = i
                filled = min(filled + 1, count)
        # entries by their indices, as ordinals lose the bits of NaN and the sign of 0
        for at in range(count):
            i = indices[row, at]
            entries[row, at] = -np.inf if i == without else x[i]
