"""What a backbone is: images to features of their cells."""

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

    It computes in the type of the images. A subclass sets the attributes and has `layers` and `windows`.
    """

    channels: int
    """C, of the images."""
    output_size: int
    """F, of the features."""
    stride: int
    """The side of a cell in pixels."""

    @abstractmethod
    def features(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None) -> Plane:
        """The features of images that are zero at padding, zero at padding, and their mask."""

    @abstractmethod
    def windows(self) -> Iterable[Window]:
        """The windows of the layers, from images to features, where several paths join those of the longest."""

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
        """How many pixels to the right and down of a cell's middle the middle of what its features depend on lies.

        Windows that do not overlap are their cells; others have their middle at the first pixel of their cell.
        """
        middle, jump = 0.0, 1
        for size, stride in self.windows():
            middle += jump * ((size - 1) / 2 if size == stride else (size - 1) / 2 - (size - 1) // 2)
            jump *= stride
        return middle - (jump - 1) / 2

    def forward(self, images: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Plane:
        """The features, zero at padding, and their mask (B, h, w); None if no mask is given.

        Args:
            images: whatever at padding, which is to the right and below.
            mask: True at real pixels; all if None.

        Raises:
            ShapeError: for images or a mask of another shape or type.
        """
        mask = keep_image_mask(images, mask, self.channels)
        return self.features(without_padding(images, mask), mask)


def positive(**sizes: int) -> None:
    """Refuses sizes below 1."""

    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name}={size} must be at least 1.")
