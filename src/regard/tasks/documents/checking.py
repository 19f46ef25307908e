"""What looks wrong with labelled documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from regard.data import Finding, Findings
from regard.data.documents import Document, Documents, document_findings
from regard.data.finding import NUM_EXAMPLES, Severity, by_severity
from regard.errors import counted
from regard.tasks.documents.encoded import SplitDocuments
from regard.tasks.documents.reading import DocumentTrainingData

FEW_DOCUMENTS, FEW_HELD_OUT, FEW_OF_A_LABEL = 100, 20, 5
SHOWN = 5
"""The most labels that a finding names."""


def check_documents(data: DocumentTrainingData) -> Findings:
    """Looks at training and held-out documents."""
    findings = [*_sizes("train", data.train, data.train_words), *_sizes("dev", data.dev, data.dev_words)]
    findings += _few(data)
    findings += _labels(data)
    for name, documents, words in (("train", data.train, data.train_words), ("dev", data.dev, data.dev_words)):
        findings += [
            Finding(found.severity, f"{name}: {found.text}", found.count, found.examples)
            for found in document_findings(documents, words.extents)
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


def _few(data: DocumentTrainingData) -> Iterator[Finding]:
    if (count := len(data.train)) < FEW_DOCUMENTS:
        yield Finding("warning", counted(count, "training document|documents is|are too few to learn much from"), count)
    if (count := len(data.dev)) < FEW_HELD_OUT:
        yield Finding(
            "warning", counted(count, "held-out document|documents is|are too few for reliable metrics"), count
        )


def _labels(data: DocumentTrainingData) -> Iterator[Finding]:
    """Findings about how often labels occur, and where."""
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
    rare = [name for name in names if frequencies[name] < FEW_OF_A_LABEL]
    if rare:
        text = (
            f"{counted(len(rare), 'label|labels has|have')} fewer than {FEW_OF_A_LABEL} training documents: "
            f"{_listed(rare)}"
        )
        yield Finding("warning", text, len(rare))
    unknown = [item for item in data.dev if any(name not in data.labels for name in item.labels)]
    if unknown:
        missing = sorted({name for item in unknown for name in item.labels if name not in data.labels})
        text = counted(
            len(unknown), "document|documents of dev has|have labels that no training document has: "
        ) + _listed(missing)
        severity: Severity = "error" if len(unknown) == len(data.dev) else "warning"
        yield Finding(severity, text, len(unknown), _places(unknown))


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
    return ", ".join(map(repr, names[:SHOWN])) + ", …" * (len(names) > SHOWN)
