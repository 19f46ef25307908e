"""Resizing and linear maps of pictures."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional


def resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """A picture (H, W, C) uint8 resized to `height` and `width`, antialiased.

    With the scale s = H / height, row i of the result is the mean of the rows j weighted by the triangle
    max(0, 1 - |(j + 1/2) - (i + 1/2) s| / max(s, 1)), and likewise for columns: smaller pictures average all pixels,
    larger ones are interpolated linearly.
    """
    if image.shape[:2] == (height, width):
        return image
    # (1, C, H, W) with channels last in memory, to avoid a copy
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]
    resized = functional.interpolate(pixels, (height, width), mode="bilinear", antialias=True, align_corners=False)
    return resized[0].permute(1, 2, 0).contiguous().numpy()


def warp(
    image: NDArray[np.uint8],
    matrix: NDArray[np.float64],
    move: NDArray[np.float64],
    height: int,
    width: int,
    *,
    paper: bool,
) -> NDArray[np.uint8]:
    """A picture (H, W, C) uint8 under a linear map about its middle, interpolated linearly.

    A point p relative to the middle of the picture moves to matrix · p + move relative to the middle of the result.

    Args:
        matrix: (2, 2), invertible, for columns (x, y) in pixels, y down.
        move: (2,), x and y in pixels.
        height, width: of the result.
        paper: whether the picture is extended by white rather than by its last rows and columns.
    """
    old_height, old_width = image.shape[:2]
    inverse = np.linalg.inv(matrix)
    x = np.arange(width) + 0.5 - width / 2 - move[0]
    y = np.arange(height)[:, None] + 0.5 - height / 2 - move[1]
    # the source of each pixel in units of half the picture, for `grid_sample`
    across = (inverse[0, 0] * x + inverse[0, 1] * y) * (2 / old_width)
    down = (inverse[1, 0] * x + inverse[1, 1] * y) * (2 / old_height)
    grid = torch.from_numpy(np.stack([across, down], axis=-1).astype(np.float32))[None]
    # inverted, as `grid_sample` extends pictures by zeros
    pixels = torch.from_numpy(np.ascontiguousarray(255 - image if paper else image)).permute(2, 0, 1)[None].float()
    mode = "zeros" if paper else "border"
    warped = functional.grid_sample(pixels, grid, "bilinear", mode, align_corners=False)[0].permute(1, 2, 0)
    values = warped.round().clamp(0, 255).to(torch.uint8).contiguous().numpy()
    return 255 - values if paper else values
