"""The trainee of documents: a model with its training data, for the training loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.data import bucket
from regard.data.pairs import shorten
from regard.errors import ConfigError
from regard.runs.trainee import AbstractArrayTrainee, numbered_pictures, without_words
from regard.shapes import is_trusted
from regard.tasks.documents.evaluation import DocumentEvaluation, DocumentPrediction, ScoredDocument, evaluation
from regard.tasks.documents.model import DocumentModel
from regard.tasks.documents.reading import DocumentTrainingData
from regard.training import Loss, Validation, processes
from regard.training.grid import padded
from regard.viz import plot_document

NUM_MEASURED = 200
"""The number of held-out documents whose weights are measured at each validation."""


class DocumentTrainee(AbstractArrayTrainee):
    """A `DocumentModel` with the documents that it is trained on.

    Args:
        data: training and held-out documents; training documents without words are left out.
    """

    model: DocumentModel
    counted = "documents"

    def __init__(self, model: DocumentModel, data: DocumentTrainingData) -> None:
        self.model = model
        self.documents = data.dev
        vocabulary = data.field.words.vocabulary
        self.train, self.dev = data.train_words.encoded(vocabulary), data.dev_words.encoded(vocabulary)
        # a flat network reads the words of a document as one sentence
        self.inputs = self.train if model.module.sentence is not None else self.train.undivided()
        self.used = np.flatnonzero(self.train.words > 0)
        labels = model.labels
        self.targets = torch.from_numpy(labels.indicators(data.train) if labels.several else labels.ids(data.train))
        self.weights = self._weights()

    def descriptions(self, epoch: int) -> Sequence[Any]:
        batches = bucket(
            self.train.words[self.used],
            self.train.counts[self.used],
            batch_tokens=self.config.training.batch_words,
            seed=self.config.seed,
            epoch=epoch,
        )
        return [self.used[batch] for batch in batches]

    def batch(self, description: Any) -> dict[str, Tensor]:
        ids, mask = self.inputs.pad(description)
        targets = self.targets[torch.from_numpy(np.asarray(description, dtype=np.int64))]
        weights = torch.ones(len(targets)) if self.weights is None else self.weights[targets]
        return {"ids": ids, "mask": mask, "targets": targets, "weights": weights}

    def padded(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """A batch with sizes on a grid; added documents have the weight 0."""
        return padded(batch, {"ids": "BSW", "mask": "BSW"}, is_coarse=True)

    def loss(self, batch: dict[str, Tensor], *, step: int, generator: torch.Generator) -> Loss:
        """Smoothed cross-entropy of the labels; of several labels, summed over the labels of a document."""
        training = self.config.training
        ids = without_words(batch["ids"], batch["mask"], training.word_dropout, generator)
        logits = self.module(ids, batch["mask"], in_place=is_trusted()).logits.float()
        targets, weights, smoothing = batch["targets"], batch["weights"], training.label_smoothing
        if self.model.labels.several:
            soft = targets * (1 - smoothing) + smoothing / 2
            total = functional.binary_cross_entropy_with_logits(logits, soft, weights[:, None], reduction="sum")
        else:
            losses = functional.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
            total = (losses * weights).sum()
        return Loss(total, (weights > 0).sum())

    @torch.no_grad()
    def validate(self) -> Validation:
        """Metrics of the held-out documents, with samples and pictures."""
        result = self._evaluate()
        metrics = dict(result.metrics)
        del metrics["documents"]
        predictions = self.model.predict_documents([item.text for item in self.documents[:NUM_MEASURED]])
        metrics.update(focus(predictions))
        shown = self.config.training.samples
        pictures = numbered_pictures(
            partial(self._draw, number) if self.model.can_plot(prediction) else None
            for number, prediction in enumerate(predictions[:shown])
        )
        return Validation(metrics, [sample_line(entry) for entry in result.scored[:shown]], pictures, concern(result))

    @property
    def examples(self) -> Iterator[str]:
        """The held-out texts; none if a text has several fields."""
        return (item.text for item in self.documents if len(self.model.input_fields) == 1)

    def calibration_items(self) -> DocumentEvaluation:
        return self._evaluate()

    def _evaluate(self) -> DocumentEvaluation:
        """The evaluation of the held-out documents, each predicted by one of the processes."""
        local = processes.local_part(range(len(self.dev)))
        own = {i: self.model.prediction(p) for i, p, _ in self.model.classify(self.dev, local)}
        predictions = processes.merged(processes.gathered([own[i] for i in local]))
        return evaluation(self.documents, predictions, self.model.labels)

    def _draw(self, number: int, path: Path) -> None:
        item = self.documents[number]
        (prediction,) = self.model.predict_documents([item.text])
        plot_document(self.model.weighted(prediction, label=", ".join(item.labels) or "no label"), path)

    def _weights(self) -> Tensor | None:
        """(C,) the weights that balance the labels; None if all documents have the weight 1."""
        if self.config.training.class_weights == "none":
            return None
        counts = torch.bincount(self.targets[self.used], minlength=len(self.model.labels)).clamp(min=1)
        return len(self.used) / (len(counts) * counts.float())


def check_weights(several: bool, class_weights: str) -> None:
    """Refuses weights of labels where documents have several."""
    if several and class_weights != "none":
        raise ConfigError(
            "class_weights are for documents with one label each; leave it out, or data.label_separator",
            ("training", "class_weights"),
        )


def focus(predictions: Sequence[DocumentPrediction]) -> Mapping[str, float]:
    """The mean of the largest weight among the words of a sentence (or of a flat document), and among sentences."""
    measured: dict[str, list[float]] = {}
    for prediction in predictions:
        words, sentences = prediction.word_weights, prediction.sentence_weights
        if words is not None and words.numel():
            largest = words.amax() if sentences is None else words.amax(-1).mean()
            measured.setdefault("word_focus", []).append(float(largest))
        if sentences is not None and sentences.numel():
            measured.setdefault("sentence_focus", []).append(float(sentences.amax()))
    return {name: float(np.mean(values)) for name, values in measured.items()}


def concern(result: DocumentEvaluation) -> str | None:
    """A warning if all held-out documents have the same labels although not all are right; else None."""
    predicted = {entry.prediction.labels for entry in result.scored}
    if len(result.scored) < 2 or len(predicted) > 1 or all(entry.is_right for entry in result.scored):
        return None
    shown = " and ".join(map(repr, next(iter(predicted)))) or "no label"
    return f"The saved model gives all {len(result.scored):,} held-out documents {shown}."


def sample_line(entry: ScoredDocument) -> str:
    """One line about a document: its beginning, its labels, and the right ones if these are wrong."""
    right, predicted = (", ".join(names) or "no label" for names in (entry.document.labels, entry.prediction.labels))
    expected = "" if entry.is_right else f"   (expected {right})"
    return f"{shorten(' '.join(entry.document.text.split()))} → {predicted}{expected}"
