"""Turns pictures and strokes into inputs of the encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import ConfigError, DataError, RegardError
from regard.image import Fitting, Rendering, Strokes, image_size, pixel_strokes, read_image
from regard.tasks.image_to_text.config import ImageConfig

KEY_PATH = ("data", "image")
Image = Path | Strokes | NDArray[np.uint8]
"""The file of a picture, strokes, or a picture (H, W, C) uint8."""


@dataclass(frozen=True, slots=True)
class PictureReader:
    """Reads pictures, draws strokes, and fits both to the sizes and values of the encoder.

    Args:
        max_file_pixels: files with more pixels are refused before they are decoded.
    """

    fitting: Fitting
    rendering: Rendering
    max_file_pixels: int

    @classmethod
    def of(cls, config: ImageConfig, *, pretrained: bool = False) -> PictureReader:
        """The reader that `data.image` describes.

        Args:
            pretrained: whether the encoder has published weights, which assume pictures that are not inverted.
        """
        invert = config.colour == "grey" and not pretrained if config.invert is None else config.invert
        options: dict[str, Any] = {"max_height": config.max_height, "max_width": config.max_width}
        options["max_pixels"] = config.max_pixels
        if config.size is not None:
            if any(options.pop(name) is not None for name in ("max_height", "max_width")):
                raise ConfigError("max_height and max_width have no effect with size; leave them out", KEY_PATH)
            options = {"size": config.size}
        try:
            fitting = Fitting(colour=config.colour, fit=config.fit, invert=invert, **options)
            rendering = Rendering(config.unit, config.pen, config.margin, max_pixels=config.max_pixels)
        except RegardError as error:
            raise ConfigError(str(error), KEY_PATH) from None
        return cls(fitting, rendering, config.max_file_pixels)

    def pixels(self, image: Image, *, report: Callable[[str], None] | None = None) -> NDArray[np.uint8]:
        """The picture, (H, W, C) uint8, before it is fitted.

        Args:
            report: called with a message about parts of a file that were left out, such as frames of an animation.
        """
        if isinstance(image, Strokes):
            return self.rendering.draw(image)
        if isinstance(image, Path):
            try:
                return read_image(
                    image,
                    colour=self.fitting.colour,
                    max_pixels=self.max_file_pixels,
                    report=report or (lambda text: None),
                )
            except DataError:
                self.size(image)  # its message about too many pixels names the key
                raise
        if image.ndim == 2:
            image = image[..., None]
        if image.ndim != 3 or image.shape[2] not in (1, 3) or image.dtype != np.uint8:
            raise DataError(f"expected a picture, (H, W, 1) or (H, W, 3) uint8; got {image.shape} {image.dtype}")
        return image

    def __call__(
        self, image: Image, *, place: str = "", report: Callable[[str], None] | None = None
    ) -> NDArray[np.float32]:
        """The encoder's input, (C, H, W).

        Raises:
            DataError: for anything but a picture; the text names the file, or begins with the place.
        """
        return self.fitting(self.pixels(image, report=report), place=place)

    def size(self, image: Image) -> tuple[int, int]:
        """Height and width of the encoder's input, without decoding a file.

        Raises:
            DataError: for a file that is not a picture or has too many pixels.
        """
        return self.fitting.sizes(*self.own_size(image))

    def own_size(self, image: Image) -> tuple[int, int]:
        """Height and width before a picture is fitted; errors as of `size`."""
        if isinstance(image, Strokes):
            placement = self.rendering.place(image)
            return placement.height, placement.width
        if not isinstance(image, Path):
            return image.shape[0], image.shape[1]
        height, width = image_size(image)
        if height * width > self.max_file_pixels:
            raise DataError(
                f"{image}: {width:,} × {height:,} pixels are more than data.image.max_file_pixels="
                f"{self.max_file_pixels:,}; it is not decoded.\n  Make it smaller, or raise data.image.max_file_pixels."
            )
        return height, width

    def strokes(self, image: Image) -> Strokes | None:
        """Strokes in pixels of the encoder's input; None of a picture."""
        return pixel_strokes(image, self.rendering, self.fitting) if isinstance(image, Strokes) else None

    def picture(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """The picture (H, W, C) uint8 of an input (C, H, W) of the encoder."""
        levels = values.transpose(1, 2, 0)
        levels = 1 - levels if self.fitting.invert else levels
        picture: NDArray[np.uint8] = np.rint(levels * 255).clip(0, 255).astype(np.uint8)
        return picture
