"""The task of classifying documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from regard.data import Findings
from regard.data.documents import DocumentField, Labels
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError
from regard.models import DocumentClassifier
from regard.runs.contract import AbstractTask, Metric
from regard.runs.fingerprints import DAMAGED
from regard.runs.plan import Plan
from regard.runs.trained_items import DataItem
from regard.tasks.documents.build import build_classifier
from regard.tasks.documents.checking import check_documents
from regard.tasks.documents.config import DocumentsConfig
from regard.tasks.documents.defaults import resolve
from regard.tasks.documents.model import FIELD, LABELS, DocumentModel
from regard.tasks.documents.reading import DocumentTrainingData, data_item, empty_field, read_data
from regard.tasks.documents.trainee import DocumentTrainee, check_weights

DRAFT_SIZE = 8
"""The number of words and of labels in a draft."""


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

    def read(self, config: DocumentsConfig) -> DocumentTrainingData:
        return read_data(config.data)

    def check(self, config: DocumentsConfig, material: DocumentTrainingData) -> Findings:
        return check_documents(material)

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

    def resolve(
        self, config: DocumentsConfig, material: DocumentTrainingData, report: Findings
    ) -> Plan[DocumentsConfig]:
        words = material.train_words
        return resolve(config, words.num_words, words.num_sentences, held_out=len(material.dev), chosen=material.chosen)

    def build(self, config: DocumentsConfig, material: DocumentTrainingData, *, name: str) -> DocumentModel:
        return DocumentModel.build(config, material.field, material.labels, name=name)

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


TASK = DocumentsTask()
