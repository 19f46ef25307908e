"""The task of classifying documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import Findings, bucket
from regard.data.documents import DocumentField, Documents, Labels
from regard.data.objects import WrittenData
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError, counted
from regard.layers import TokenEmbedding
from regard.models import DocumentClassifier
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.contract import AbstractTask, Metric
from regard.runs.fingerprints import DAMAGED
from regard.runs.plan import Plan, choose_steps, falling_dropout
from regard.runs.trained_items import DataItem
from regard.tasks.documents.build import build_classifier
from regard.tasks.documents.config import DocumentsConfig
from regard.tasks.documents.model import FIELD, LABELS, DocumentModel
from regard.tasks.documents.objects import write_documents
from regard.tasks.documents.reading import DocumentTrainingData, check, data_item, empty_field, read_data
from regard.tasks.documents.trainee import DocumentTrainee, check_weights
from regard.tasks.documents.word_vectors import word_vectors

WORDS = ("word", "whitespace")
"""Units that tell what a document is about; characters and bytes occur in all documents."""
LATENT = "plan: the vectors of words are first those of latent semantic analysis of the training documents"
DRAFT_SIZE = 8
"""The number of words and of labels in a draft."""
REFERENCE = 500_000
"""Words of the collection on which the numbers were tuned, the reference."""
BATCH_WORDS, BATCH_GROWTH = 3_000, 0.5
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 1_600, 0.4, 1_000
VALIDATIONS = 20
VALIDATED = 0.5
"""The time of a document's validation relative to its training (measured: 0.48)."""
DROPOUT, DROPOUT_DECAY, LEAST_DROPOUT, MOST_DROPOUT = 0.4, 0.1, 0.2, 0.5
"""Dropout at the reference, its decrease for ten times as many words, and its range."""


class DocumentsTask(AbstractTask[DocumentsConfig]):
    """Labelled documents, and a classifier of them."""

    summary = "labels of documents: topics, ratings, senders; attention over words and sentences"
    metrics = (
        Metric("error_rate"),
        Metric("accuracy", aliases=("exact_match",), larger_is_better=True),
        Metric("macro_f1", larger_is_better=True),
        Metric("micro_f1", larger_is_better=True),
        Metric("loss"),
    )

    def draft(self, config: DocumentsConfig) -> DocumentClassifier:
        if config.training.compile:
            raise ConfigError(
                "the number of sentences of a batch depends on its documents, so there is no graph to compile; leave "
                "compile out",
                ("training", "compile"),
            )
        check_weights(config.data.label_separator is not None, config.training.class_weights)
        empty_field(config.data)
        return build_classifier(config.model, num_words=DRAFT_SIZE, num_labels=DRAFT_SIZE)

    def write_data(self, config: DocumentsConfig, data: Any, folder: Path, name: str) -> WrittenData:
        return write_documents(config.data, data, folder, name)

    def read(self, config: DocumentsConfig) -> DocumentTrainingData:
        return read_data(config.data)

    def check(self, config: DocumentsConfig, material: DocumentTrainingData) -> Findings:
        return check(material)

    def items(self, material: DocumentTrainingData) -> tuple[Iterator[DataItem], Iterator[DataItem]]:
        return map(data_item, material.train), map(data_item, material.dev)

    def continued(
        self, config: DocumentsConfig, material: DocumentTrainingData, base: DocumentModel
    ) -> DocumentTrainingData:
        """The documents, with the words and labels of the model added."""
        words = base.field.words.extended(material.field.words)
        names = dict.fromkeys((*base.labels.names, *material.labels.names))
        labels = Labels(names, several=material.labels.several)
        return replace(material, field=replace(material.field, words=words), labels=labels)

    def joined(
        self, material: DocumentTrainingData, former: DocumentTrainingData, *, train: float, dev: float, seed: int
    ) -> DocumentTrainingData:
        material = super().joined(material, former, train=train, dev=dev, seed=seed)
        return material.of(Documents(material.train), Documents(material.dev))

    def known_to(self, material: DocumentTrainingData, model: DocumentModel) -> DocumentTrainingData:
        material = replace(material, field=model.field, labels=model.labels)
        return material.of(Documents(()), material.dev)

    def resolve(
        self, config: DocumentsConfig, material: DocumentTrainingData, report: Findings
    ) -> Plan[DocumentsConfig]:
        words = material.train_words
        return resolve(config, words.num_words, words.num_sentences, held_out=len(material.dev), chosen=material.chosen)

    def build(self, config: DocumentsConfig, material: DocumentTrainingData, *, name: str) -> DocumentModel:
        """An untrained model, whose words have the vectors of `word_vectors`."""
        model = DocumentModel.build(config, material.field, material.labels, name=name)
        if config.data.units in WORDS:
            embedding, vocabulary = model.module.embedding, material.field.words.vocabulary
            assert isinstance(embedding, TokenEmbedding)
            documents = material.train_words.encoded(vocabulary)
            embedding.begin_with(word_vectors(documents, len(vocabulary), embedding.size))
        return model

    def trainee(self, model: DocumentModel, material: DocumentTrainingData) -> DocumentTrainee:
        return DocumentTrainee(model, material)

    def restore(self, config: DocumentsConfig, folder: Path, *, name: str) -> DocumentModel:
        try:
            field, labels = DocumentField.load(folder, FIELD), Labels.load(folder / LABELS)
        except (DataError, UnsupportedError):
            raise
        except (RegardError, TypeError) as error:
            raise DataError(f"{folder}: {error}\n  {DAMAGED}") from None
        return DocumentModel.build(config, field, labels, name=name)


def resolve(
    config: DocumentsConfig,
    words: NDArray[np.int64],
    sentences: NDArray[np.int64],
    *,
    held_out: int = 0,
    chosen: Mapping[str, float] = MappingProxyType({}),
) -> Plan[DocumentsConfig]:
    """Chooses batches, steps and dropout by the size of the data.

    Let n be the number of words of the training documents. With some 5,000 short reports as the reference,

        batch_words = 3,000 · (n / 500,000)^½        steps = max(1,000, 1,600 · (n / 500,000)^0.4)

    so that 300 short texts give 1,000 steps, and 100,000 documents of 200 words 7,000. Warm-up and validations follow
    from the steps. Dropout falls by 0.1 for ten times as many words. `docs/log.md` has the experiments behind it.

    Args:
        words, sentences: (documents,) of the training documents; those without words do not count.
    """
    has_words = words > 0
    words, sentences = words[has_words], sentences[has_words]
    num_words = int(words.sum())
    size = max(num_words, 1) / REFERENCE
    dropout = falling_dropout(size, at_one=DROPOUT, decay=DROPOUT_DECAY, least=LEAST_DROPOUT, most=MOST_DROPOUT)
    keys = AutomaticSettings(config, dict(chosen))
    keys.choose("model.dropout", dropout)
    batch_words = keys.choose("training.batch_words", two_digits(BATCH_WORDS * size**BATCH_GROWTH))
    batches = len(bucket(words, sentences, batch_tokens=batch_words, seed=config.seed, epoch=0))
    goal = max(BASE_STEPS * size**STEPS_GROWTH, LEAST_STEPS)
    cost = VALIDATED * held_out / max(len(words), 1)
    steps_per_epoch = choose_steps(keys, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
    amount = f"{counted(int(has_words.sum()), 'document|documents')}, {counted(num_words, 'word|words')}"
    batch = f"of up to {counted(batch_words, 'word|words')}"
    notes = (LATENT,) if config.data.units in WORDS else ()
    return Plan(keys, amount, batch, "training.batch_words", steps_per_epoch, notes, validation_cost=cost)


TASK = DocumentsTask()
