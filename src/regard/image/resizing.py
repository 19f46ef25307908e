"""Pictures of another size."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional


def resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """A picture (H, W, C) uint8 brought to `height` and `width`, antialiased.

    With the scale s = H / height, and likewise for columns, row i of the result is the mean of the rows j weighted by
    the triangle max(0, 1 - |(j + 1/2) - (i + 1/2) s| / max(s, 1)), so that in a smaller picture every pixel of the
    larger one counts, and a larger one is interpolated linearly.
    """
    if image.shape[:2] == (height, width):
        return image
    # (1, C, H, W) whose channels are last in memory, so nothing is copied
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]
    resized = functional.interpolate(pixels, (height, width), mode="bilinear", antialias=True, align_corners=False)
    return resized[0].permute(1, 2, 0).contiguous().numpy()
