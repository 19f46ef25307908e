"""Convolutions and pools of images in which padding has no effect."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import avg_pool2d, max_pool2d, pad

from regard.errors import ConfigError
from regard.models.vision.cells import cell_mask, without_padding
from regard.models.vision.norms import NormName, norm_named, normalised
from regard.ops.batch_norm import Activation
from regard.shapes import Bool, Float

Plane = tuple[Tensor, Tensor | None]
"""Features (B, C, H, W), zero at padding, and their mask (B, H, W), True at real cells; None if all are."""


class ConvolutionFilters(nn.Conv2d):
    """W ∗ x + b: `nn.Conv2d` whose weights are cast to the dtype of x."""

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B F h w"]:
        weight, bias = (None if w is None else w.to(x.dtype) for w in (self.weight, self.bias))
        assert weight is not None
        if self.kernel_size == (1, 1) and self.groups == 1:
            # a matrix product reads rows (B, H, W, C) in place, also in a wider array (`dense.py`); and torch 2.13's
            # strided convolution of bfloat16 writes beyond the end of a gradient
            x = x[:, :, :: self.stride[0], :: self.stride[1]]
            rows = functional.linear(x.permute(0, 2, 3, 1).flatten(0, 2), weight.flatten(1), bias)
            return rows.unflatten(0, (len(x), *x.shape[2:])).permute(0, 3, 1, 2)
        return functional.conv2d(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class ImageConvolution(nn.Module):
    """f(norm(W ∗ x + b) + r): a convolution, normalisation, an optional residual r and an activation f.

    x and the result are 0 at padding, so a convolution reads the same beyond the edge of an image and of a batch. A
    side of H pixels becomes ⌈H / stride⌉. The weights are those of `nn.Conv2d` (`self.filters`).

    Args:
        input_size: channels of x.
        size: F, the number of filters.
        kernel_size: the side K of a filter.
        stride: the distance between two windows.
        norm: `none`, `batch`, `group` or `layer`; without a normalisation the filters have a bias b.
        activation: f: none, relu or relu6.
        groups: groups of channels that are convolved separately.
        before: pixels above and to the left of a window's cell, (K - 1) // 2 if None. TensorFlow's "same" padding of
            even sides has (K - 2) // 2 with stride 2.
        momentum, epsilon: of the normalisation.

    Raises:
        ConfigError: for an even kernel, or a stride below 1.
    """

    def __init__(
        self,
        input_size: int,
        size: int,
        kernel_size: int,
        *,
        stride: int = 1,
        norm: NormName = "batch",
        activation: Activation = "relu",
        groups: int = 1,
        before: int | None = None,
        momentum: float = 0.1,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ConfigError(f"kernel_size={kernel_size} must be odd, so that a filter has a centre.")
        if stride < 1:
            raise ConfigError(f"stride={stride} must be at least 1.")
        self.size = size
        self.kernel_size = kernel_size
        self.stride = stride
        self.activation: Activation = activation
        before = (kernel_size - 1) // 2 if before is None else before
        self.reach = before, kernel_size - 1 - before
        symmetric = before * 2 == kernel_size - 1
        self.filters = ConvolutionFilters(
            input_size,
            size,
            kernel_size,
            stride=stride,
            padding=before if symmetric else 0,
            groups=groups,
            bias=norm == "none",
        )
        nn.init.kaiming_normal_(self.filters.weight, mode="fan_out", nonlinearity="relu")
        if self.filters.bias is not None:
            nn.init.zeros_(self.filters.bias)
        self.norm = norm_named(norm, size, epsilon=epsilon, momentum=momentum)

    def forward(
        self,
        x: Float[Tensor, "B C H W"],
        mask: Bool[Tensor, "B H W"] | None = None,
        residual: Float[Tensor, "B F h w"] | None = None,
    ) -> Plane:
        """The features (B, F, h, w) and their mask.

        Args:
            x: zero at padding.
            mask: True at real pixels; all if None.
            residual: r, zero at padding; 0 if None.
        """
        if self.reach[0] != self.reach[1]:
            x = pad(x, (*self.reach, *self.reach))
        y, mask = self.filters(x), cell_mask(mask, self.stride)
        return normalised(self.norm, y, mask, activation=self.activation, residual=residual), mask


class MaximumPool(nn.Module):
    """The largest real value in windows of K by K pixels; a side of H becomes ⌈H / stride⌉.

    Args:
        kernel_size: K: equal to `stride` for windows that do not overlap, or an odd number, for windows centred on the
            first pixel of every cell.
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
        # both are divided by the number of pixels of a square inside the batch
        sums = avg_pool2d(x, self.stride, ceil_mode=True)
        real = avg_pool2d(mask[:, None].to(x.dtype), self.stride, ceil_mode=True)
        return sums / real.clamp(min=0.5 / self.stride**2), cell_mask(mask, self.stride)
