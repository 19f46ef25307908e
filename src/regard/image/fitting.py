"""Conversion of pictures of any size to the sizes and values of a network's input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError, RegardError, ShapeError
from regard.image.read import Colour

Fit = Literal["pad", "stretch", "crop"]
Small = Literal["refuse", "pad"]
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Mean and deviation of red, green and blue in ImageNet, for values from 0 to 1."""
LUMA = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in grey, as in `read_image` (ITU-R BT.601)."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The size and place of a picture in the input of a network.

    Args:
        height, width: of the input.
        inner_height, inner_width: of the scaled picture.
        top, left: of its first row and column in the input; negative if they are cut off.
    """

    height: int
    width: int
    inner_height: int
    inner_width: int
    top: int = 0
    left: int = 0

    def apply(self, points: NDArray[np.floating], height: int, width: int) -> NDArray[np.float64]:
        """Pixels (…, 2), x and y, of the input for pixels (…, 2) of a picture of this height and width."""
        scale = self.inner_width / width, self.inner_height / height
        return np.asarray(points, np.float64) * scale + (self.left, self.top)


@dataclass(frozen=True, slots=True)
class Fitting:
    """Converts a picture to the size and values of a network's input.

    Pictures either keep their sizes within limits (text and formulas, in padded batches), or all get one `size`
    (photographs and pretrained networks). Limits reduce pictures and never enlarge them; the aspect ratio is kept
    unless `fit` is `stretch`. Scaling is antialiased (`regard.image.resize`).

    Args:
        colour: `grey` (C = 1) or `rgb` (C = 3); other pictures are converted.
        max_height, max_width, max_pixels: limits; None: no limit.
        min_height, min_width: the smallest input of the network.
        small: whether smaller pictures are errors (`refuse`), or padded with zeros on the right and at the bottom.
        size: height and width of all pictures, instead of limits.
        fit: for `size`: `pad` scales the whole picture into the size and surrounds it by zeros; `crop` scales it to
            fill the size and cuts off the rest; `stretch` scales height and width separately.
        invert: 1 - x / 255, so that white is 0 and ink 1; otherwise x / 255.
        mean, std: for each channel or all: (x - mean) / std, after that.

    Raises:
        RegardError: for options that contradict each other.

    >>> fitting = Fitting(max_height=32, max_width=100, invert=True)
    >>> fitting.sizes(64, 400)
    (16, 100)
    >>> fitting(np.full((64, 400, 1), 255, np.uint8)).shape
    (1, 16, 100)
    """

    colour: Colour = "grey"
    max_height: int | None = None
    max_width: int | None = None
    max_pixels: int | None = None
    min_height: int = 1
    min_width: int = 1
    small: Small = "refuse"
    size: tuple[int, int] | None = None
    fit: Fit = "pad"
    invert: bool = False
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, values in (("colour", ("grey", "rgb")), ("fit", ("pad", "stretch", "crop"))):
            if getattr(self, name) not in values:
                raise RegardError(f"{name} must be one of {', '.join(values)}; got {getattr(self, name)!r}.")
        if self.small not in ("refuse", "pad"):
            raise RegardError(f"small must be refuse or pad; got {self.small!r}.")
        limits = {name: getattr(self, name) for name in ("max_height", "max_width", "max_pixels")}
        smallest = {"min_height": self.min_height, "min_width": self.min_width}
        sides = dict(zip(("size[0]", "size[1]"), self.size or ()))
        for name, value in (limits | smallest | sides).items():
            if value is not None and value < 1:
                raise RegardError(f"{name} must be at least 1; got {value}.")
        for side in ("height", "width"):
            if (limit := limits[f"max_{side}"]) is not None and limit < smallest[f"min_{side}"]:
                raise RegardError(f"max_{side}={limit} is below min_{side}={smallest[f'min_{side}']}.")
        if self.max_pixels is not None and self.max_pixels < self.min_height * self.min_width:
            raise RegardError(
                f"max_pixels={self.max_pixels} is below min_height · min_width = {self.min_height * self.min_width}."
            )
        if self.size is not None:
            chosen = [f"{name}={value}" for name, value in limits.items() if value is not None]
            chosen += [f"{name}={value}" for name, value in smallest.items() if value > 1]
            if chosen:
                raise RegardError(f"size={self.size} is that of all pictures; leave out {', '.join(chosen)}.")
        elif self.fit != "pad":
            raise RegardError(f"fit={self.fit!r} has no effect without size; give the size of all pictures.")
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if numbers is not None and len(numbers) not in (1, self.num_channels):
                raise RegardError(f"{name} needs {self.num_channels} numbers for {self.colour}; got {numbers}.")
        if self.std is not None and min(self.std) <= 0:
            raise RegardError(f"std must be above 0; got {self.std}.")

    @property
    def num_channels(self) -> int:
        """C of the network's input."""
        return 1 if self.colour == "grey" else 3

    def sizes(self, height: int, width: int, *, place: str = "") -> tuple[int, int]:
        """Height and width of the input for a picture.

        Args:
            place: the beginning of messages, such as the picture's file.

        Raises:
            DataError: for a picture that is too small, if `small` is `refuse`.
        """
        frame = self.frame(height, width, place=place)
        return frame.height, frame.width

    def frame(self, height: int, width: int, *, place: str = "") -> Frame:
        """Size and place of a picture in the input, with arguments and errors of `sizes`."""
        before = place and f"{place}: "
        if min(height, width) < 1:
            raise DataError(f"{before}the picture has no pixels: {height} × {width} (height × width).")
        if self.size is not None:
            return self._fixed(height, width, *self.size)
        scale = min(1.0, (self.max_height or height) / height, (self.max_width or width) / width)
        if self.max_pixels is not None:
            scale = min(scale, math.sqrt(self.max_pixels / (height * width)))
        # rounded down to keep the limits, except for errors of rounding
        inner_height, inner_width = (max(1, math.floor(side * scale + 1e-6)) for side in (height, width))
        if self.max_pixels is not None and inner_height * inner_width > self.max_pixels:
            # a side below a pixel was rounded up
            inner_height = min(inner_height, self.max_pixels)
            inner_width = min(inner_width, self.max_pixels // inner_height)
        outer = max(inner_height, self.min_height), max(inner_width, self.min_width)
        if outer != (inner_height, inner_width) and self.small == "refuse":
            scaled = "" if scale == 1 else f", scaled to {inner_height} × {inner_width}"
            raise DataError(
                f"{before}a picture of {height} × {width} pixels (height × width){scaled}, is too small: "
                f"at least {self.min_height} × {self.min_width} are needed."
            )
        return Frame(*outer, inner_height, inner_width)

    def __call__(self, image: NDArray[np.uint8], *, place: str = "") -> NDArray[np.float32]:
        """The input for a picture: (C, H, W) float32.

        Args:
            image: (H, W, 1) or (H, W, 3) uint8.
            place: as in `sizes`.

        Raises:
            ShapeError: for another shape or type.
            DataError: for a picture that is too small, if `small` is `refuse`.
        """
        if image.ndim != 3 or image.shape[2] not in (1, 3) or image.dtype != np.uint8:
            raise ShapeError(
                f"{place and f'{place}: '}expected a picture, (H, W, 1) or (H, W, 3) uint8; got {image.shape} "
                f"{image.dtype}."
            )
        frame = self.frame(*image.shape[:2], place=place)
        if image.shape[:2] != (frame.inner_height, frame.inner_width):
            from regard.image.resizing import resize  # torch, which tables of pictures do not need

            image = resize(image, frame.inner_height, frame.inner_width)
        top, left = max(frame.top, 0), max(frame.left, 0)
        image = image[-min(frame.top, 0) :, -min(frame.left, 0) :][: frame.height - top, : frame.width - left]
        values = self._values(_coloured(image, self.num_channels).transpose(2, 0, 1))
        if values.shape[1:] == (frame.height, frame.width):
            return values
        fitted = np.zeros((self.num_channels, frame.height, frame.width), np.float32)
        fitted[:, top : top + values.shape[1], left : left + values.shape[2]] = values
        return fitted

    def _fixed(self, height: int, width: int, outer_height: int, outer_width: int) -> Frame:
        if self.fit == "stretch":
            return Frame(outer_height, outer_width, outer_height, outer_width)
        scales = outer_height / height, outer_width / width
        scale = min(scales) if self.fit == "pad" else max(scales)
        inner_height, inner_width = max(1, round(height * scale)), max(1, round(width * scale))
        # in the middle, rounded to the left and up
        top, left = (outer_height - inner_height) // 2, (outer_width - inner_width) // 2
        return Frame(outer_height, outer_width, inner_height, inner_width, top, left)

    def _values(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The values (C, H, W) float32 of bytes."""
        levels = np.arange(256, dtype=np.float64) / 255
        if self.invert:
            levels = 1 - levels
        mean, std = np.array(self.mean or (0.0,)), np.array(self.std or (1.0,))
        # the values of the 256 levels, in each channel or in all
        table = ((levels - mean[:, None]) / std[:, None]).astype(np.float32)
        if len(table) == 1:
            return table[0][pixels]
        return np.stack([row[channel] for row, channel in zip(table, pixels)])


def pad_images(
    images: Sequence[NDArray[np.float32]], *, multiple: int = 1
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """A padded batch of pictures: (B, C, H, W) float32, and the mask (B, H, W), True at real pixels.

    Pictures are at the top left; padding is 0.

    Args:
        images: (C, H, W) each, as returned by `Fitting`.
        multiple: H and W are rounded up to multiples of this, so that batches have fewer different sizes.

    Raises:
        ShapeError: for no pictures, or different C.

    >>> batch, mask = pad_images([np.ones((1, 2, 3), np.float32), np.ones((1, 3, 2), np.float32)])
    >>> batch.shape, mask.sum((1, 2)).tolist()
    ((2, 1, 3, 3), [6, 6])
    """
    shapes = [image.shape for image in images]
    if not shapes or any(len(shape) != 3 or shape[0] != shapes[0][0] for shape in shapes):
        raise ShapeError(f"expected pictures (C, H, W) of the same C; got {shapes[:8]}.")
    height, width = (-(-max(shape[axis] for shape in shapes) // multiple) * multiple for axis in (1, 2))
    batch = np.zeros((len(images), shapes[0][0], height, width), np.float32)
    mask = np.zeros((len(images), height, width), np.bool_)
    for row, image in enumerate(images):
        batch[row, :, : image.shape[1], : image.shape[2]] = image
        mask[row, : image.shape[1], : image.shape[2]] = True
    return batch, mask


def _coloured(image: NDArray[np.uint8], num_channels: int) -> NDArray[np.uint8]:
    """A picture in a number of channels."""
    if image.shape[2] == num_channels:
        return image
    if num_channels == 3:
        return image.repeat(3, axis=2)
    return np.rint(image @ np.array(LUMA)[:, None]).astype(np.uint8)
