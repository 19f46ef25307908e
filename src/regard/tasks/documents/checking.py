"""Checks of labelled documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from regard.data import Finding, Findings
from regard.data.documents import Document, Documents, document_findings
from regard.data.finding import NUM_EXAMPLES, Severity, by_severity, too_few
from regard.errors import counted, first_of
from regard.tasks.documents.encoded import SplitDocuments
from regard.tasks.documents.reading import DocumentTrainingData

FEW_DOCUMENTS, FEW_HELD_OUT, FEW_OF_A_LABEL = 100, 20, 5
SHOWN = 5
"""The most labels in a finding."""


def check_documents(data: DocumentTrainingData) -> Findings:
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
        f"{counted(len(names), 'label|labels')}; {most!r} has {share:.1%} of the training documents, "
        f"{least!r} {frequencies[least]:,}"
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
