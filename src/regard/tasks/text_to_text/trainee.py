"""The trainee of text to text: a model with its training data, for the training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data import Pairs, bucket
from regard.data.growing_array import GrowingArray, blocks
from regard.data.text.survey import Survey
from regard.tasks.decoder_losses import Teaching
from regard.tasks.text_generation.trainee import AbstractWriterTrainee
from regard.tasks.text_to_text.encoded_pairs import EncodedPairs
from regard.tasks.text_to_text.links import TrainingLinks
from regard.tasks.text_to_text.mixture import PairMixture
from regard.tasks.text_to_text.model import TextToText
from regard.tasks.text_to_text.reading import PairReading
from regard.tasks.text_to_text.teachers import TeacherProbabilities


class PairTrainee(AbstractWriterTrainee):
    """A `TextToText` model with the pairs that it is trained on.

    Args:
        train: training pairs; those with more than `data.max_length` symbols or an empty side are left out.
        reading: what was found when they were read; they are read again if None.
        mixture: how often pairs occur in an epoch; once if None.
    """

    model: TextToText
    axes: ClassVar[Mapping[str, str]] = {
        **AbstractWriterTrainee.axes,
        "source": "BS",
        "source_mask": "BS",
        "source_ids": "BS",
        "extension": "BX",
        "taught_symbols": "BT.",
        "taught": "BT.",
    }

    def __init__(
        self,
        model: TextToText,
        train: Pairs,
        dev: Pairs,
        reading: PairReading | None = None,
        mixture: PairMixture | None = None,
    ) -> None:
        config = model.config
        if reading is None:
            reading = PairReading.of(train, dev, model.source, model.target)
        reading = reading.of_fields(model.source, model.target)
        self._pairs, self._mixture = train, mixture
        self._survey = reading.train
        self.train, self.dev = EncodedPairs(reading.train, model), EncodedPairs(reading.dev, model)
        self.used = _used(reading.train, config.data.max_length)
        self._epoch: tuple[int, Sequence[NDArray[np.int64]]] = (-1, ())
        self.links: TrainingLinks | None = None
        if (alignments := config.data.alignments) is not None:
            fields = (model.source, model.target) if config.data.alignment_units == "word" else None
            lengths = np.stack(self.train.lengths, 1).astype(np.int64)
            self.links = TrainingLinks(alignments, train, lengths, fields, is_reversed=model.is_reversed)
        self.dev_batches = bucket(
            *self.dev.lengths,
            batch_tokens=config.training.batch_tokens,
            seed=0,
            epoch=0,
            shuffle=False,
            extra=1,
        )
        super().__init__(model, model.items(dev))

    def descriptions(self, epoch: int) -> Sequence[Any]:
        if epoch != self._epoch[0]:
            items, seed = self.used, self.config.seed
            if self._mixture is not None:
                items = self._mixture.items(len(self._pairs), items, seed=seed, epoch=epoch)
            batches = bucket(
                *self.train.lengths,
                batch_tokens=self.model.config.training.batch_tokens,
                seed=seed,
                epoch=epoch,
                items=items,
                extra=1,
            )
            self._epoch = epoch, batches
        return self._epoch[1]

    def batch(self, description: Any) -> dict[str, Tensor]:
        batch = self.train.pad(description)
        if self.links is not None:
            rows = np.asarray(description, dtype=np.int64)
            batch["reference"] = self.links.pad(rows, batch["targets"].shape[1], batch["source"].shape[1])
        if self.model.config.training.taught_by:
            batch["taught_symbols"], batch["taught"] = self.teachers.pad(description, batch["mask"])
        return batch

    @cached_property
    def teachers(self) -> TeacherProbabilities:
        """What the teachers say about the training pairs, which is computed when the first batch is made."""
        return TeacherProbabilities.of(self.model, self._survey)

    def teaching(self, batch: dict[str, Tensor]) -> Teaching | None:
        if "taught" not in batch:
            return None
        return Teaching(batch["taught_symbols"], batch["taught"], self.model.config.training.teacher_weight)

    def places(self, description: Any) -> Sequence[str]:
        return [self._pairs[int(index)].place for index in description]

    def held_out(self) -> Sequence[Callable[[], dict[str, Tensor]]]:
        return [partial(self.dev.pad, batch) for batch in self.dev_batches]

    def memory(self, batch: dict[str, Tensor]) -> tuple[Any, Tensor | None]:
        copied = {name: batch[name] for name in ("source_ids", "extension") if name in batch}
        return self.module.prepare(batch["source"], batch["source_mask"], **copied), batch["source_mask"]

    @property
    def examples(self) -> Iterator[str]:
        return (item.source for item in self.items)


def _used(pairs: Survey, most: int) -> NDArray[Any] | None:
    """The indices of the pairs that training uses; None if it uses all."""
    if len(pairs.sizes.within(most)) == len(pairs.sizes):
        return None
    used = GrowingArray()
    for start, (source, target) in blocks(pairs.source.lengths, pairs.target.lengths):
        used.add(start + np.flatnonzero((np.maximum(source, target) <= most) & (np.minimum(source, target) > 0)))
    return used.array()
