"""What was written about a picture."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.decoding import Prediction
from regard.image import Strokes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImagePrediction(Prediction):
    """The text of a picture; `alignment` (T, S) has a column for each of its S = h · w cells, row by row.

    Args:
        name: of the picture.
        image: (H, W, C) uint8, the picture as the encoder saw it; None if it could not be read.
        grid: (h, w), rows and columns of cells.
        cell_size: the side of a cell in pixels.
        shift: how far the middle of what a cell depends on lies from the middle of the cell, in pixels to the right and
            down.
        strokes: what was written, in pixels of `image`; None of a picture.
    """

    name: str = ""
    image: NDArray[np.uint8] | None = None
    grid: tuple[int, int] = (0, 0)
    cell_size: int = 1
    shift: float = 0.0
    strokes: Strokes | None = None

    @classmethod
    def of(cls, prediction: Prediction, **further: Any) -> ImagePrediction:
        """The prediction with what belongs to its picture."""
        return cls(**{each.name: getattr(prediction, each.name) for each in fields(Prediction)}, **further)
