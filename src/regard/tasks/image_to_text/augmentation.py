"""What changes pictures and strokes at random in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config.tasks.image_to_text import AugmentationConfig
from regard.image import Strokes
from regard.tasks.image_to_text.pixels import Image, PictureReader


@dataclass(frozen=True, slots=True)
class Augmenter:
    """Reads a picture as it is changed in an epoch: a pure function of seed, epoch and item.

    Args:
        config: the changes; None: none.
        reader: reads pictures and draws strokes.
        seed: of the configuration.
    """

    config: AugmentationConfig | None
    reader: PictureReader
    seed: int

    def __call__(self, image: Image, epoch: int, item: int) -> NDArray[np.float32]:
        """What the encoder reads, (C, H, W)."""
        if self.config is None:
            return self.reader(image)
        random = np.random.default_rng((self.seed, epoch, item))
        if random.random() >= self.config.share:
            return self.reader(image)
        return self._changed(image, random)

    def _changed(self, image: Image, random: Any) -> NDArray[np.float32]:
        if isinstance(image, Strokes):
            return self.reader(image)
        return self.reader(image)
