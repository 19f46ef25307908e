"""Reads and checks the documents of a configuration, and learns their words and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import Finding, Findings
from regard.data.documents import (
    Document,
    DocumentField,
    Documents,
    Labels,
    Sentences,
    document_findings,
    hold_out_documents,
    read_documents,
)
from regard.data.documents.files import SUFFIXES
from regard.data.finding import NUM_EXAMPLES, Severity, by_severity, too_few
from regard.data.split import suggested_fraction
from regard.data.text import Field, Normalisation, Vocabulary
from regard.data.text.field import PLAIN_UNITS
from regard.errors import ConfigError, DataError, counted, first_of
from regard.runs.trained_items import DataItem
from regard.tasks.documents.config import DocumentDataConfig
from regard.tasks.documents.encoded import SplitDocuments

FEW_DOCUMENTS, FEW_HELD_OUT, FEW_OF_A_LABEL = 100, 20, 5
SHOWN = 5
"""The most labels in a finding."""


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

    def of(self, train: Documents, dev: Documents) -> DocumentTrainingData:
        """With other documents."""
        train_words, dev_words = (SplitDocuments((item.text for item in part), self.field) for part in (train, dev))
        return replace(self, train=train, dev=dev, train_words=train_words, dev_words=dev_words)


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


def check(data: DocumentTrainingData) -> Findings:
    """Checks training and held-out documents."""
    findings = [*_sizes("train", data.train, data.train_words), *_sizes("dev", data.dev, data.dev_words)]
    counts = len(data.train), len(data.dev)
    findings += too_few(*counts, "document|documents", least=(FEW_DOCUMENTS, FEW_HELD_OUT))
    findings += _labels(data)
    for name, documents, words in (("train", data.train, data.train_words), ("dev", data.dev, data.dev_words)):
        findings += [
            Finding(each.severity, f"{name}: {each.text}", each.count, each.examples)
            for each in document_findings(documents, words.extents)
        ]
        findings += _repeated(name, documents)
    findings += _unknown(data)
    return Findings(by_severity(findings))


def _sizes(name: str, documents: Documents, words: SplitDocuments) -> Iterator[Finding]:
    count, lengths = len(documents), words.num_words
    yield Finding(
        "info",
        f"{name} has {counted(count, 'document|documents')} of {lengths.min():,} to {lengths.max():,} words, "
        f"median {np.median(lengths):,.0f}",
        count,
    )
    if documents.num_blank:
        text = f"{name} has {counted(documents.num_blank, 'blank line|lines, which is|are skipped')}"
        yield Finding("info", text, documents.num_blank)
    if not lengths.any():
        yield Finding("error", f"no document of {name} has words", count)


def _labels(data: DocumentTrainingData) -> Iterator[Finding]:
    """Findings about the frequencies of labels, and about unknown labels."""
    frequencies = Counter(name for item in data.train for name in item.labels)
    names = data.labels.names
    if len(names) == 1 and not data.labels.several:
        yield Finding("error", f"all training documents have the same label, {names[0]!r}", len(data.train))
        return
    most, least = max(names, key=lambda name: frequencies[name]), min(names, key=lambda name: frequencies[name])
    share = frequencies[most] / len(data.train)
    text = (
        f"{counted(len(names), 'label|labels')}; {most!r} has {frequencies[most]:,} training documents ({share:.1%}), "
        f"{least!r} has {frequencies[least]:,}"
    )
    yield Finding("info", text, len(names))
    if data.labels.several:
        none = sum(not item.labels for item in data.train)
        mean = sum(frequencies.values()) / len(data.train)
        yield Finding(
            "info",
            f"{mean:.2g} labels per document; {counted(none, 'training document|documents has|have')} none",
            none,
        )
    if rare := [name for name in names if frequencies[name] < FEW_OF_A_LABEL]:
        text = counted(len(rare), f"label|labels has|have fewer than {FEW_OF_A_LABEL} training documents: ")
        yield Finding("warning", text + _listed(rare), len(rare))
    if unknown := [item for item in data.dev if any(name not in data.labels for name in item.labels)]:
        missing = sorted({name for item in unknown for name in item.labels if name not in data.labels})
        text = counted(len(unknown), "document|documents of dev has|have labels that no training document has: ")
        severity: Severity = "error" if len(unknown) == len(data.dev) else "warning"
        yield Finding(severity, text + _listed(missing), len(unknown), _places(unknown))


def _repeated(name: str, documents: Documents) -> Iterator[Finding]:
    seen: set[tuple[str, tuple[str, ...]]] = set()
    repeated = []
    for item in documents:
        key = item.text, item.labels
        if key in seen:
            repeated.append(item)
        seen.add(key)
    if repeated:
        text = f"{name}: {counted(len(repeated), 'document|documents repeats|repeat')} an earlier one with its label"
        yield Finding("info", text, len(repeated), _places(repeated))


def _unknown(data: DocumentTrainingData) -> Iterator[Finding]:
    total = sum(data.dev_words.frequencies.values())
    vocabulary = data.field.words.vocabulary
    unknown = sum(count for word, count in data.dev_words.frequencies.items() if word not in vocabulary)
    if unknown:
        share = f"{unknown / total:.1%}"
        text = f"the vocabulary has {len(vocabulary.symbols):,} words; {share} of dev's words are unknown"
        yield Finding("info", text, unknown)


def _places(items: list[Document]) -> tuple[str, ...]:
    return tuple(item.place for item in items[:NUM_EXAMPLES])


def _listed(names: list[str]) -> str:
    return first_of(list(map(repr, names)), SHOWN)
