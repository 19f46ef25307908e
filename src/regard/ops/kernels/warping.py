"""Dynamic time warping row by row.

    D(t, u) = cost(t, u) + min(D(t-1, u-1), D(t-1, u), D(t, u-1))       D(0, 0) = cost(0, 0), ∞ outside
    move(t, u) = 0, 1 or 2: which of the three is the minimum, the first of equal ones

D is stored for one row (U,), moves for all (T, U), a byte each. The path follows the moves back from (T - 1, U - 1) and
is then reversed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.kernels.compiled import compiled
from regard.ops.threads import parallel_for


def warping_path(costs: Tensor, lengths: Tensor, other_lengths: Tensor) -> tuple[Tensor, Tensor]:
    """As `ops.warping_path`."""
    batch, num_steps, num_others = costs.shape
    pairs = torch.full((batch, num_steps + num_others - 1, 2), -1)
    counts = torch.zeros(batch, dtype=torch.long)
    tensors = (costs.contiguous(), lengths.contiguous(), other_lengths.contiguous(), pairs, counts)
    parallel_for(_warp, tuple(tensor.numpy() for tensor in tensors), batch, costs.numel())
    return pairs, counts


@compiled
def _warp(costs: Any, lengths: Any, other_lengths: Any, pairs: Any, counts: Any, start: int, stop: int) -> None:
    """pairs (B, T + U - 1, 2) and counts (B,) of costs (B, T, U)."""
    for b in range(start, stop):
        num_steps, num_others = lengths[b], other_lengths[b]
        sums = np.empty(num_others, costs.dtype)
        moves = np.empty((num_steps, num_others), np.int8)
        # the first row: only u grows
        total = costs[b, 0, 0]
        sums[0] = total
        for u in range(1, num_others):
            total += costs[b, 0, u]
            sums[u] = total
            moves[0, u] = 2
        for t in range(1, num_steps):
            # the first column: only t grows. `diagonal` is D(t-1, u-1), which D(t, u-1) overwrites in `sums`
            diagonal = sums[0]
            sums[0] += costs[b, t, 0]
            moves[t, 0] = 1
            for u in range(1, num_others):
                above, left = sums[u], sums[u - 1]
                best, move = diagonal, 0
                if above < best:
                    best, move = above, 1
                if left < best:
                    best, move = left, 2
                sums[u] = costs[b, t, u] + best
                moves[t, u] = move
                diagonal = above
        # back from the end
        t, u = num_steps - 1, num_others - 1
        count = 0
        while True:
            pairs[b, count, 0] = t
            pairs[b, count, 1] = u
            count += 1
            if t == 0 and u == 0:
                break
            move = moves[t, u]
            if move != 2:
                t -= 1
            if move != 1:
                u -= 1
        counts[b] = count
        # reversed, so that the path begins at (0, 0)
        for i in range(count // 2):
            for axis in range(2):
                other = pairs[b, count - 1 - i, axis]
                pairs[b, count - 1 - i, axis] = pairs[b, i, axis]
                pairs[b, i, axis] = other
