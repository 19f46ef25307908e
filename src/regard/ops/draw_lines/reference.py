"""The distances of all pixels to all segments."""

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
        dx, dy = x1 - x0, y1 - y0
        squared = dx * dx + dy * dy
        # the share of the segment's length at which it is nearest to each pixel
        share = ((x - x0) * dx + (y - y0) * dy) / torch.where(squared > POINT, squared, 1)
        share = torch.where(squared > POINT, share.clamp(0, 1), 0)
        distance = torch.hypot(x - x0 - share * dx, y - y0 - share * dy)
        nearest = torch.minimum(nearest, distance)
    return (pen / 2 + 0.5 - nearest).clamp(0, 1)
