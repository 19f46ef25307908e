"""The trainee of sequence labelling: a model with its sentences, for the training loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.data import bucket
from regard.data.text.vocabulary import UNKNOWN
from regard.runs.trainee import AbstractArrayTrainee, numbered_pictures, without_words
from regard.tasks.encoded import pad
from regard.tasks.labelling.columns import Sentence
from regard.tasks.labelling.evaluation import LabellingEvaluation
from regard.tasks.labelling.model import Tagger
from regard.tasks.labelling.reading import LabellingMaterial
from regard.training import Loss, Validation

HELD_OUT_ROWS = 64
"""Held-out sentences in a batch of the validation loss."""


class LabellingTrainee(AbstractArrayTrainee):
    """A model with the sentences that it is trained on; those longer than `data.max_length` are left out."""

    model: Tagger
    counted = "tokens"
    axes: ClassVar[Mapping[str, str]] = {
        "tokens": "BS",
        "words": "BS",
        "mask": "BS",
        "targets": "BS",
        "spelling": "NW",
    }

    def __init__(self, model: Tagger, material: LabellingMaterial) -> None:
        self.model = model
        self.train = [each for each in material.train if len(each.tokens) <= self.config.data.max_length]
        self.dev = material.dev
        self.lengths = np.array([len(each.tokens) for each in self.train], dtype=np.int64)

    def descriptions(self, epoch: int) -> Sequence[Any]:
        training = self.config.training
        return bucket(
            self.lengths, self.lengths, batch_tokens=training.batch_tokens, seed=self.config.seed, epoch=epoch
        )

    def batch(self, description: Any) -> dict[str, Tensor]:
        return self._batch([self.train[i] for i in description])

    def _batch(self, sentences: Sequence[Sentence]) -> dict[str, Tensor]:
        targets, _ = pad([self.model.labels.ids(each.labels) for each in sentences])
        return {**self.model.batch([each.tokens for each in sentences]), "targets": targets}

    def loss(self, batch: dict[str, Tensor], *, step: int, generator: torch.Generator) -> Loss:
        """Smoothed cross-entropy of the labels, with word dropout."""
        training = self.config.training
        tokens = without_words(batch["tokens"], batch["mask"], training.word_dropout, generator)
        total, likelihood, count = self._sums({**batch, "tokens": tokens}, training.label_smoothing)
        return Loss(total, count.clamp(min=1), {"negative_log_likelihood": likelihood})

    def _sums(self, batch: dict[str, Tensor], smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
        """Loss and likelihood, summed over the tokens with known labels, and the number of these tokens."""
        inputs = {name: batch[name] for name in ("tokens", "words", "spelling", "mask")}
        features = self.module(**inputs).features
        counted = batch["mask"] & (batch["targets"] != UNKNOWN)
        total, likelihood = self.module.head.cross_entropy(features, batch["targets"], counted, smoothing=smoothing)
        return total, likelihood, counted.sum()

    @torch.no_grad()
    def validate(self) -> Validation:
        """Metrics and loss of the held-out sentences, with samples and pictures."""
        evaluation, shown = self.model.score(self.dev), self.config.training.samples
        losses = []
        for start in range(0, len(self.dev), HELD_OUT_ROWS):
            batch = self.on_device(self._batch(self.dev[start : start + HELD_OUT_ROWS]))
            _, likelihood, counted = self._sums(batch, 0.0)
            losses.append((float(likelihood), int(counted)))
        total, count = map(sum, zip(*losses))
        metrics = {**evaluation.metrics, "loss": total / count if count else float("nan")}
        del metrics["sentences"]
        drawn = self.model.predict([each.tokens for each in self.dev[:shown]])
        pictures = numbered_pictures(
            partial(self.model.plot, [each]) if self.model.can_plot(each) else None for each in drawn
        )
        return Validation(metrics, [str(each) for each in evaluation.scored[:shown]], pictures)

    def calibration_items(self) -> LabellingEvaluation:
        return self.model.score(self.dev)

    @property
    def examples(self) -> Iterator[str]:
        return (" ".join(each.tokens) for each in self.dev)
