"""What changes pictures and strokes at random in training."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regard.config.tasks.image_to_text import AugmentationConfig
from regard.image import ImageAugmentation, StrokeAugmentation, Strokes, item_generator
from regard.tasks.image_to_text.pixels import Image, PictureReader


@dataclass(frozen=True, slots=True)
class Augmenter:
    """Reads a picture as it is changed in an epoch: a pure function of seed, epoch and item.

    Args:
        reader: reads pictures and draws strokes.
        seed: of the configuration.
        strokes, pictures: the changes; None: none.
    """

    reader: PictureReader
    seed: int
    strokes: StrokeAugmentation | None = None
    pictures: ImageAugmentation | None = None

    @classmethod
    def of(cls, config: AugmentationConfig | None, reader: PictureReader, seed: int) -> Augmenter:
        """The changes that `data.augmentation` describes."""
        if config is None:
            return cls(reader, seed)
        strokes = StrokeAugmentation(**config.strokes.model_dump())
        return cls(reader, seed, strokes, ImageAugmentation(**config.pictures.model_dump()))

    def __call__(self, image: Image, epoch: int, item: int) -> NDArray[np.float32]:
        """What the encoder reads, (C, H, W).

        Args:
            image: a picture or strokes.
            epoch, item: numbers by which the draws differ.

        Raises:
            DataError: for what is no picture.
        """
        generator = item_generator(self.seed, epoch, item)
        if isinstance(image, Strokes) and self.strokes is not None:
            changed, rendering = self.strokes(image, self.reader.rendering, generator)
            return replace(self.reader, rendering=rendering)(changed)
        if not isinstance(image, Strokes) and self.pictures is not None:
            return self.reader(self.pictures(self.reader.pixels(image), generator))
        return self.reader(image)
