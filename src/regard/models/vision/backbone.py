"""The base of backbones: from images to features of their cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.vision.cells import keep_image_mask, without_padding
from regard.models.vision.convolution import Plane
from regard.shapes import Bool, Float

Window = tuple[int, int]
"""The side of a layer's window and its stride, in pixels of its input."""


class AbstractBackbone(nn.Module, ABC):
    """A convolutional network from images (B, C, H, W) to features (B, F, ⌈H / stride⌉, ⌈W / stride⌉).

    It computes in the dtype of the images. A subclass sets the attributes and implements `features` and `windows`.
    """

    channels: int
    """C, of the images."""
    output_size: int
    """F, of the features."""
    stride: int
    """The side of a cell in pixels."""

    @abstractmethod
    def features(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None) -> Plane:
        """The features, zero at padding, and their mask, from images that are zero at padding."""

    @abstractmethod
    def windows(self) -> Iterable[Window]:
        """The windows of the layers, from images to features, on the longest path."""

    @property
    def receptive_field(self) -> int:
        """The side, in pixels, of the square that a feature depends on: 1 + Σ_l (K_l - 1) · Π_{i<l} stride_i."""
        field, jump = 1, 1
        for size, stride in self.windows():
            field += (size - 1) * jump
            jump *= stride
        return field

    @property
    def shift(self) -> float:
        """The offset, in pixels to the right and down, of the centre of the receptive field from that of its cell.

        Windows that do not overlap coincide with their cells; others are centred on the first pixel of their cell.
        """
        middle, jump = 0.0, 1
        for size, stride in self.windows():
            middle += jump * ((size - 1) / 2 if size == stride else (size - 1) / 2 - (size - 1) // 2)
            jump *= stride
        return middle - (jump - 1) / 2

    def forward(self, images: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Plane:
        """The features, zero at padding, and their mask (B, h, w); None if no mask is given.

        Args:
            images: any values at padding, which is to the right and below.
            mask: True at real pixels; all if None.

        Raises:
            ShapeError: for images or a mask of another shape or type.
        """
        mask = keep_image_mask(images, mask, self.channels)
        return self.features(without_padding(images, mask), mask)


def positive(**sizes: int) -> None:
    """Raises `ConfigError` for sizes below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name}={size} must be at least 1.")
