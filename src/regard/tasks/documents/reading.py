"""Reads the documents of a configuration, and learns their words and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.data.documents import (
    Document,
    DocumentField,
    Documents,
    Labels,
    Sentences,
    hold_out_documents,
    read_documents,
)
from regard.data.documents.files import SUFFIXES
from regard.data.split import suggested_fraction
from regard.data.text import Field, Normalisation, Vocabulary
from regard.data.text.field import PLAIN_UNITS
from regard.errors import ConfigError, DataError
from regard.runs.trained_items import DataItem
from regard.tasks.documents.config import DocumentDataConfig
from regard.tasks.documents.encoded import SplitDocuments


@dataclass(frozen=True, slots=True)
class DocumentTrainingData:
    """The documents that a model is trained on.

    Args:
        field: sentences, and the words of the training documents.
        chosen: values of open keys that follow from the documents, by dotted key.
    """

    train: Documents
    dev: Documents
    train_words: SplitDocuments
    dev_words: SplitDocuments
    field: DocumentField
    labels: Labels
    chosen: Mapping[str, float]


def read_data(data: DocumentDataConfig) -> DocumentTrainingData:
    """Reads the documents, and learns words and labels from the training documents.

    Raises:
        ConfigError: for settings that contradict the files.
        DataError: for files that cannot be read, or that have no documents or words.
    """
    documents = read_file(data, data.train)
    if not len(documents):
        raise DataError(f"{data.train}: there are no documents to train on.")
    chosen: dict[str, float] = {}
    if data.dev is not None:
        train, dev = documents, read_file(data, data.dev)
        if not len(dev):
            raise DataError(f"{data.dev}: there are no held-out documents.")
    else:
        fraction = data.dev_fraction
        if fraction is None:
            fraction = chosen["data.dev_fraction"] = suggested_fraction(len(documents))
        train, dev = hold_out_documents(documents, fraction)
    labels = Labels.build(train, several=data.label_separator is not None)
    field = empty_field(data)
    train_words, dev_words = (SplitDocuments((item.text for item in items), field) for items in (train, dev))
    inventory = field.words.units.inventory
    if inventory is not None:
        vocabulary = Vocabulary(inventory)
    else:
        vocabulary = Vocabulary.of_counts(
            train_words.frequencies, min_count=data.min_count, max_symbols=data.vocabulary_size
        )
    if not vocabulary.symbols:
        raise DataError(f"{data.train}: no word of the documents occurs {data.min_count} times; lower data.min_count.")
    field = replace(field, words=replace(field.words, vocabulary=vocabulary))
    return DocumentTrainingData(train, dev, train_words, dev_words, field, labels, chosen)


def read_file(
    data: DocumentDataConfig,
    path: Path | str,
    *,
    text_field: Any = None,
    label_field: str | int | None = None,
) -> Documents:
    """Reads a file or folder with the settings of the configuration, but files other than those of training in the
    format of their suffix, if it is a known one.

    Args:
        text_field, label_field: in place of those of the configuration.
    """
    is_training = str(path) in (str(data.train), str(data.dev))
    known = Path(path).is_dir() or Path(path).suffix.lower() in SUFFIXES
    try:
        return read_documents(
            path,
            format="auto" if known and not is_training else data.format,
            text_field=data.text_field if text_field is None else text_field,
            label_field=data.label_field if label_field is None else label_field,
            label_separator=data.label_separator,
            delimiter=data.delimiter,
            header=data.header,
        )
    except ConfigError as error:
        raise ConfigError(str(error), error.path or ("data",)) from None


def data_item(document: Document) -> DataItem:
    """A document as an item of the record of trained items: its words and its labels."""
    return DataItem(document.place, " ".join(document.text.split()), ("\n".join(sorted(document.labels)),))


def empty_field(data: DocumentDataConfig) -> DocumentField:
    """Sentences and units of a configuration, without words."""
    units = PLAIN_UNITS[data.units]()
    if units.inventory is not None:
        defaults = DocumentDataConfig(train=data.train)
        for key in ("min_count", "vocabulary_size"):
            if getattr(data, key) != getattr(defaults, key):
                raise ConfigError(f"{key} has no effect with units: {data.units}; leave it out", ("data", key))
    words = Field(Normalisation(data.case, data.unicode), units, Vocabulary(()))
    sentences = None if data.sentences == "none" else Sentences(data.sentences)
    return DocumentField(words, sentences, data.max_sentence_length, data.max_sentences)
