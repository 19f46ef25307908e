"""Pools of images that leave padding out."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d

from regard.models.vision.cells import cell_mask, without_padding
from regard.models.vision.convolution import Plane
from regard.shapes import Bool, Float


class MaximumPool(nn.Module):
    """The largest real value in windows of K by K pixels; a side of H becomes ⌈H / stride⌉.

    Args:
        kernel_size: K: `stride` for windows that do not overlap, or an odd number, for windows around every cell's
            first pixel.
        stride: the distance between two windows.
    """

    def __init__(self, kernel_size: int = 2, stride: int = 2) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride

    def forward(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Plane:
        """The pooled features, zero at padding, and their mask."""
        if mask is not None:
            x = x.masked_fill(~mask[:, None], -torch.inf)
        before = 0 if self.kernel_size == self.stride else (self.kernel_size - 1) // 2
        y = max_pool2d(x, self.kernel_size, self.stride, before, ceil_mode=before == 0)
        mask = cell_mask(mask, self.stride)
        return without_padding(y, mask), mask


class MeanPool(nn.Module):
    """The mean of the real values in squares of `stride` by `stride` pixels; a side of H becomes ⌈H / stride⌉.

    Args:
        stride: the side of the squares.
    """

    def __init__(self, stride: int = 2) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Plane:
        """The pooled features, zero at padding, and their mask.

        Args:
            x: zero at padding.
        """
        if mask is None:
            return avg_pool2d(x, self.stride, ceil_mode=True), None
        # both are divided by the pixels of a square that lie inside of the batch
        sums = avg_pool2d(x, self.stride, ceil_mode=True)
        real = avg_pool2d(mask[:, None].to(x.dtype), self.stride, ceil_mode=True)
        return sums / real.clamp(min=0.5 / self.stride**2), cell_mask(mask, self.stride)
