"""Lines drawn segment by segment into the pixels near each.

    R = pen / 2 + 1/2                                beyond R from every segment there is no ink
    v = b - a,  p = pixel's centre - a               of a segment from a to b
    s = p·v / |v|²                                   the pixel's place along it: 0 at a, 1 at b
    d² = (p × v)² / |v|² + (s - clip(s, 0, 1))² |v|²         aside of it, and beyond its ends
    coverage = min(R - d, 1)                         with the least d of all segments

A point is a segment of direction (1, 0) whose places are clipped to 0. The parts aside and beyond are not made from the
nearest point of the segment, whose coordinates would be rounded if an end is far away.

`ink` (height, width) holds d², which begins at R², until all segments are drawn; then a pass turns it into the
coverage, with one square root a pixel that has ink. Threads take bands of rows, and each looks at all segments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.threads import parallel_for

POINT = 1e-12
"""As in the reference."""


def draw_lines(segments: Tensor, height: int, width: int, *, pen: float) -> Tensor:
    """As the operation, on the CPU."""
    ends = segments.detach().contiguous().numpy()
    ink = np.empty((height, width), ends.dtype)
    reach = ends.dtype.type(pen / 2 + 0.5)
    sides = np.abs(ends[:, 2:] - ends[:, :2]) + 2 * reach
    work = ink.size + int(min(float(sides.prod(1, dtype=np.float64).sum()), 1e12))
    parallel_for(_draw, (ends, reach, ink), height, work)
    return torch.from_numpy(ink)


@compiled
def _draw(ends: Any, reach: Any, ink: Any, start: int, stop: int) -> None:
    """Rows start to stop of ink (height, width), of ends (segments, 4)."""
    width = ink.shape[1]
    zero, one, half = ends.dtype.type(0), ends.dtype.type(1), ends.dtype.type(0.5)
    limit = reach * reach
    for i in range(start, stop):
        for j in range(width):
            ink[i, j] = limit
    for k in range(ends.shape[0]):
        x0, y0, x1, y1 = ends[k, 0], ends[k, 1], ends[k, 2], ends[k, 3]
        dx, dy, end = x1 - x0, y1 - y0, one
        if dx * dx + dy * dy <= POINT:
            dx, dy, end = one, zero, zero
        squared = dx * dx + dy * dy
        inverse = one / squared
        # rows whose centres are within R; compared as real numbers, as an end may be beyond all integers
        first = max(min(y0, y1) - reach - half, ends.dtype.type(start))
        last = min(max(y0, y1) + reach - half, ends.dtype.type(stop - 1))
        if not first <= last:
            continue
        for i in range(int(np.ceil(first)), int(np.floor(last)) + 1):
            y = i + half
            # of this row, the columns within R of the part of the segment that is within R of the row
            near, far = zero, one
            if y0 != y1:
                one_share, other_share = (y - reach - y0) / (y1 - y0), (y + reach - y0) / (y1 - y0)
                near = max(min(one_share, other_share), zero)
                far = min(max(one_share, other_share), one)
            left, right = x0 + near * (x1 - x0), x0 + far * (x1 - x0)
            left, right = min(left, right) - reach - half, max(left, right) + reach - half
            left, right = max(left, zero), min(right, ends.dtype.type(width - 1))
            if not left <= right:
                continue
            py = y - y0
            for j in range(int(np.floor(left)), int(np.ceil(right)) + 1):
                px = j + half - x0
                along = (px * dx + py * dy) * inverse
                beyond = along - min(max(along, zero), end)
                aside = px * dy - py * dx
                ink[i, j] = min(ink[i, j], aside * aside * inverse + beyond * beyond * squared)
    for i in range(start, stop):
        for j in range(width):
            d = ink[i, j]
            ink[i, j] = min(reach - np.sqrt(d), one) if d < limit else zero
