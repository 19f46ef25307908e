"""Maps of the words of outputs, compared with boxes of the objects that the words name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.pairs import shorten
from regard.data.pictures import PictureBoxes, read_boxes
from regard.data.text import Field
from regard.decoding import merge_words
from regard.errors import DataError
from regard.metrics import CaptionMaps, MapScores
from regard.tasks.image_to_text.evaluation import ImagePrediction, PictureEntry
from regard.tasks.image_to_text.pixels import Image, PictureReader

OF_LINES = ("focus_rate", "entropy")
"""Figures that are uninformative for maps, which may rightly cover a whole object."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedWords:
    """The boxes of the objects in pictures that words name."""

    path: Path
    boxes: Mapping[str, PictureBoxes]
    reader: PictureReader
    target: Field

    @classmethod
    def read(cls, path: Path, entries: Sequence[PictureEntry], reader: PictureReader, target: Field) -> PlacedWords:
        """Reads a file of boxes for the pictures of a table; pictures that it does not name have no boxes."""
        boxes = read_boxes(path)
        if not any(entry.name in boxes for entry in entries):
            raise DataError(
                f"{path}: none of its {len(boxes):,} pictures is in the table.\n"
                f"  boxes  {shorten(next(iter(boxes), 'none'))}\n"
                f"  table  {shorten(entries[0].name if entries else 'none')}"
            )
        return cls(path, boxes, reader, target)

    def maps(self, entry: PictureEntry, prediction: ImagePrediction) -> CaptionMaps:
        """The maps of an output's words, with boxes where the file has them.

        Words of the output and of the file are matched by their longest common runs.

        Raises:
            DataError: for boxes of a picture of another size.
        """
        assert entry.image is not None
        assert prediction.image is not None
        has_end = prediction.stop_reason == "eos"
        words = self.target.words(prediction.tokens[: len(prediction.tokens) - has_end])
        alignment = torch.as_tensor(prediction.alignment)
        steps = torch.from_numpy(np.append(words.index, [-1] * has_end).astype(np.int64))
        merged = merge_words(alignment, torch.arange(alignment.shape[1]), steps, num_target=len(words)).weights
        known = self.boxes.get(entry.name)
        boxes = None if known is None else self._boxes(entry, entry.image, known, words.texts, prediction)
        (rows, columns), side = prediction.grid, prediction.cell_size
        return CaptionMaps(
            id=entry.name,
            maps=merged,
            grid=prediction.grid,
            boxes=boxes,
            image=covered(prediction.image, prediction.grid, side) if self.reader.fitting.invert else None,
            size=(rows * side, columns * side),
        )

    def _boxes(
        self, entry: PictureEntry, image: Image, known: PictureBoxes, words: Sequence[str], prediction: ImagePrediction
    ) -> list[Any]:
        """For each word None, or its boxes in pixels of the encoder's input."""
        size = self.reader.own_size(image)
        if size != known.size:
            raise DataError(
                f"{self.path}: {entry.name}: size: boxes of a picture of {known.size} pixels (height, width); it has "
                f"{size}."
            )
        assert prediction.image is not None
        height, width = prediction.image.shape[:2]
        frame = self.reader.fitting.frame(*size)
        boxes: list[Any] = [None] * len(words)
        expected = [self.target.normalisation(word).strip() for word in known.words]
        matcher = SequenceMatcher(None, expected, list(words), autojunk=False)
        for first, second, count in matcher.get_matching_blocks():
            for own, placed in zip(range(second, second + count), known.boxes[first : first + count], strict=True):
                corners = np.asarray(placed or (), np.float64).reshape(-1, 2, 2)
                fitted = frame.apply(corners, *size).clip(0, (width, height)).reshape(-1, 4)
                # boxes that `fit: crop` cuts off are empty
                visible = fitted[(fitted[:, 0] < fitted[:, 2]) & (fitted[:, 1] < fitted[:, 3])]
                boxes[own] = visible if len(visible) else None
        return boxes


def map_figures(scores: MapScores) -> dict[str, float]:
    """The figures of maps, without those for which there was no comparison.

    Pointing is a mean over the words with boxes, `naming_words`; the others are means over pictures.
    """
    figures = scores.figures().items()
    return {name: value for name, value in figures if name not in OF_LINES and not math.isnan(value)}


def covered(image: NDArray[np.uint8], grid: tuple[int, int], cell_size: int) -> NDArray[np.uint8]:
    """A picture padded with paper to the right and below, to the size of its cells."""
    beyond = [(0, cells * cell_size - side) for cells, side in zip(grid, image.shape)]
    return np.pad(image, [*beyond, (0, 0)], constant_values=255)
