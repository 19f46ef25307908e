"""The trainee of image to text: a model with its pictures, for the training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.pictures.tables import SelectedPictures
from regard.data.split import chosen_evenly
from regard.data.text import BOS, EOS
from regard.decoding import Prediction
from regard.errors import DataError
from regard.image import ImageAugmentation, StrokeAugmentation, Strokes, item_generator, pad_images
from regard.metrics import ink_share, map_divergence
from regard.tasks.encoded import EncodedTexts
from regard.tasks.image_to_text.batches import bucket_pictures, in_batches
from regard.tasks.image_to_text.config import AugmentationConfig
from regard.tasks.image_to_text.evaluation import ImagePrediction
from regard.tasks.image_to_text.maps import covered
from regard.tasks.image_to_text.model import ImageToText
from regard.tasks.image_to_text.pixels import Image, PictureReader
from regard.tasks.image_to_text.reading import Material, Split, name_of
from regard.tasks.text_generation.trainee import AbstractWriterTrainee


@dataclass(frozen=True, slots=True)
class Augmenter:
    """Reads pictures with the changes of an epoch: a pure function of seed, epoch and item."""

    reader: PictureReader
    seed: int
    strokes: StrokeAugmentation | None = None
    pictures: ImageAugmentation | None = None

    @classmethod
    def of(cls, config: AugmentationConfig | None, reader: PictureReader, seed: int) -> Augmenter:
        """The augmentation that `data.augmentation` describes."""
        if config is None:
            return cls(reader, seed)
        strokes = StrokeAugmentation(**config.strokes.model_dump())
        return cls(reader, seed, strokes, ImageAugmentation(**config.pictures.model_dump()))

    def __call__(self, image: Image, epoch: int, item: int) -> NDArray[np.float32]:
        """The encoder's input, (C, H, W).

        Raises:
            DataError: for anything but a picture.
        """
        generator = item_generator(self.seed, epoch, item)
        if isinstance(image, Strokes) and self.strokes is not None:
            changed, rendering = self.strokes(image, self.reader.rendering, generator)
            return replace(self.reader, rendering=rendering)(changed)
        if not isinstance(image, Strokes) and self.pictures is not None:
            return self.reader(self.pictures(self.reader.pixels(image), generator))
        return self.reader(image)


MEASURED, MEASURED_STEPS = 50, 40
"""The held-out pictures whose maps are measured at each validation, and the maps of each."""


class Chosen(NamedTuple):
    """A batch: the indices of its texts, and the epoch, which seeds augmentation."""

    epoch: int
    texts: NDArray[np.int64]


class ImageTrainee(AbstractWriterTrainee):
    """An `ImageToText` model with the pictures that it is trained on.

    A picture with several texts is an item for each of them. Pictures are read, drawn, augmented and fitted when a
    batch is made, in another thread of the loop.

    Args:
        material: its pictures. Unreadable ones, and texts that are empty or too long, are left out of both losses. At
            most `training.validation_pictures` held-out pictures are validated; outputs are compared with all of their
            texts.
    """

    model: ImageToText
    axes: ClassVar[Mapping[str, str]] = {**AbstractWriterTrainee.axes, "images": "B.hw", "image_mask": "Bhw"}

    def __init__(self, model: ImageToText, material: Material) -> None:
        config = model.config
        self.material = material
        self.train = EncodedTexts(material.train.texts(), model.target, is_reversed=model.is_reversed)
        self.dev = EncodedTexts(material.dev.texts(), model.target, is_reversed=model.is_reversed)
        self.used = material.used
        self.shapes = material.train.sizes[material.train.owners[self.used]]
        self.augmenter = Augmenter.of(config.data.augmentation, model.reader, config.seed)
        held_out = material.dev
        pictures, most = held_out.pictures, config.training.validation_pictures
        validated = np.arange(len(pictures))
        if most is not None and most < len(pictures):
            validated = chosen_evenly((name_of(pictures, int(index)) for index in validated), most)
            pictures = SelectedPictures(pictures, validated.tolist())
        readable = held_out.sizes[held_out.owners].min(1, initial=1) > 0
        fits = (held_out.lengths > 0) & (held_out.lengths <= config.data.max_length)
        self._held_out = np.flatnonzero(readable & fits & np.isin(held_out.owners, validated))
        for split, texts in ((material.train, self.used), (held_out, self._held_out)):
            for index in np.unique(split.owners[texts]).tolist():
                model.check_grid(model.grid(split.sizes[index]), place=f"{split.name}, picture {index + 1}")
        super().__init__(model, model.items(pictures))

    def descriptions(self, epoch: int) -> Sequence[Chosen]:
        config = self.model.config
        batches = bucket_pictures(self.shapes, batch_pixels=config.training.batch_pixels, seed=config.seed, epoch=epoch)
        return [Chosen(epoch, self.used[batch]) for batch in batches]

    def batch(self, description: Chosen) -> dict[str, Tensor]:
        split = self.material.train
        images = [self._image(split, int(index), description.epoch) for index in description.texts]
        return self._batch(images, self.train, description.texts)

    def padded(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        if "image_mask" not in batch:
            images = batch["images"]
            batch = {**batch, "image_mask": torch.ones(len(images), *images.shape[2:], dtype=torch.bool)}
        return super().padded(batch)

    def places(self, description: Chosen) -> Sequence[str]:
        split = self.material.train
        return [split.pictures.read(int(split.owners[index])).place for index in description.texts]

    def divide(self, description: Chosen, count: int) -> Sequence[Chosen]:
        """Every `count`-th row: rows of a batch have similar sizes, and neighbours the most similar."""
        count = min(count, len(description.texts))
        return [Chosen(description.epoch, description.texts[number::count]) for number in range(count)]

    def item_ids(self, description: Chosen) -> Tensor:
        return torch.from_numpy(description.texts)

    def held_out(self) -> Sequence[Callable[[], dict[str, Tensor]]]:
        split = self.material.dev
        shapes = split.sizes[split.owners[self._held_out]]
        batches = in_batches(shapes, self.model.config.training.batch_pixels)
        return [partial(self._held_out_batch, self._held_out[batch]) for batch in batches]

    def memory(self, batch: dict[str, Tensor]) -> tuple[Any, Tensor | None]:
        encoded = self.module.encoder.encode(batch["images"], batch.get("image_mask"))
        return self.module.decoder.prepare(encoded), encoded.mask

    def alignment_metrics(self, predictions: Sequence[Prediction]) -> tuple[Mapping[str, float], float | None]:
        """The divergence of the maps of symbols and, of pictures in grey, the weight on ink.

        Focus rates are uninformative for maps, which may rightly cover a whole object.
        """
        maps = [each for each in predictions if isinstance(each, ImagePrediction) and each.alignment is not None]
        divergences, shares, uniform = [], [], []
        for each in maps[:MEASURED]:
            rows = np.asarray(each.alignment[:MEASURED_STEPS], np.float64)
            if len(rows) > 1:
                divergences.append(map_divergence(rows))
            if len(rows) and each.image is not None and self.model.reader.fitting.invert:
                ink = ink_share(rows, covered(each.image, each.grid, each.cell_size), grid=each.grid)
                shares.append(ink.share)
                uniform.append(ink.uniform)
        named = {"map_divergence": divergences, "ink_share": shares, "uniform_ink_share": uniform}
        return {name: float(np.mean(values)) for name, values in named.items() if values}, None

    @property
    def examples(self) -> Iterator[str]:
        """The held-out pictures that are files; else the table."""
        for item in self.items:
            image = item.source.image
            yield str(image) if isinstance(image, Path) else str(self.material.dev.pictures.path)

    def _image(self, split: Split, index: int, epoch: int | None) -> NDArray[np.float32]:
        """The encoder's input for the picture of a text, augmented if there is an epoch."""
        picture = split.pictures.read(int(split.owners[index]))
        try:
            if epoch is None:
                return self.model.reader(picture.image)
            return self.augmenter(picture.image, epoch, index)
        except DataError as error:
            raise DataError(f"{picture.place}: {error}\n  Leave the picture out, or replace its file.") from None

    def _held_out_batch(self, indices: NDArray[np.int64]) -> dict[str, Tensor]:
        split = self.material.dev
        return self._batch([self._image(split, int(index), None) for index in indices], self.dev, indices)

    def _batch(
        self, images: Sequence[NDArray[np.float32]], texts: EncodedTexts, indices: NDArray[np.int64]
    ) -> dict[str, Tensor]:
        values, real = pad_images(images)
        inputs, _ = texts.pad(indices, begin=BOS)
        targets, mask = texts.pad(indices, end=EOS)
        batch = {"images": torch.from_numpy(values), "inputs": inputs, "targets": targets, "mask": mask}
        return batch if real.all() else {**batch, "image_mask": torch.from_numpy(real)}
