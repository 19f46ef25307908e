"""The distances of all pixels to all segments.

The way from an end of a segment to a pixel has a part along the segment and one aside of it. The distance is the part
aside, and what the part along goes beyond the segment at either end.
"""

from __future__ import annotations

import torch
from torch import Tensor

POINT = 1e-12
"""A segment whose squared length is not above this is a point."""


def draw_lines(segments: Tensor, height: int, width: int, *, pen: float) -> Tensor:
    """As the operation."""
    y = torch.arange(height, device=segments.device, dtype=segments.dtype)[:, None] + 0.5
    x = torch.arange(width, device=segments.device, dtype=segments.dtype) + 0.5
    nearest = segments.new_full((height, width), float("inf"))
    for x0, y0, x1, y1 in segments:
        length = torch.hypot(x1 - x0, y1 - y0)
        is_line = length * length > POINT
        # the direction of the line; a point has any, and no length
        dx = torch.where(is_line, (x1 - x0) / length, 1)
        dy = torch.where(is_line, (y1 - y0) / length, 0)
        along = (x - x0) * dx + (y - y0) * dy
        beyond = along - along.clamp(0, float(torch.where(is_line, length, 0)))
        aside = (x - x0) * dy - (y - y0) * dx
        nearest = torch.minimum(nearest, torch.hypot(beyond, aside))
    return (pen / 2 + 0.5 - nearest).clamp(0, 1)
