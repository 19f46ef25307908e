"""Predicted labels of documents, and their metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from regard.config.place import cut
from regard.data.documents import Document, Labels
from regard.data.pairs import shorten
from regard.data.tally import SymbolTally
from regard.errors import counted
from regard.metrics import ItemTerms, LabelScores, ShownItem, f1_terms, ratio_terms, score_labels
from regard.shapes import Float
from regard.viz import plot_document
from regard.viz.notebook import embedded_page, shown_text

DECIMALS = 6
"""Decimals of probabilities and weights in JSON."""


@dataclass(frozen=True, slots=True)
class DocumentPrediction:
    """The labels of a document, with the weights of its words and sentences.

    Args:
        labels: one; none or several if documents may have several, the most probable first.
        probabilities: of every label by name, the most probable first; they sum to 1 if documents have one label.
        sentences: the words of each sentence, as the model read them.
        alignments: by level, as in `regard.models.DocumentOutput` without the batch: `word` (H, S, W) and `sentence`
            (H, S); empty for predictions without alignments; a level that pools without weights is absent.
        warnings: why the text could not be handled as it is; empty for most.
        confidence: the probability, from 0 to 1, that the labels are right.
        confidences: of every label by name, its probability at the temperature of the model, in the order of
            `probabilities`.
    """

    labels: tuple[str, ...]
    probabilities: Mapping[str, float]
    sentences: Sequence[Sequence[str]] = ()
    alignments: Mapping[str, Tensor] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    confidence: float | None = None
    confidences: Mapping[str, float] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """The labels and the text with its weights, for notebooks."""
        from regard.tasks.documents.model import DocumentModel

        shown = ", ".join(self.labels) or "no label"
        if not (self.alignments and self.sentences):
            return shown_text(f"{shown} ({self.probability:.3f})", *self.warnings)
        return embedded_page(lambda path: plot_document(DocumentModel.weighted(self), path, highest="largest"), shown)

    @property
    def probability(self) -> float:
        """Of the most probable label."""
        return next(iter(self.probabilities.values()))

    @property
    def word_weights(self) -> Float[Tensor, "S W"] | None:
        """The weights of words, the mean of the heads; None if there are none."""
        return self.alignments["word"].mean(0) if "word" in self.alignments else None

    @property
    def sentence_weights(self) -> Float[Tensor, " S"] | None:
        """The weights of sentences, the mean of the heads; None if there are none."""
        return self.alignments["sentence"].mean(0) if "sentence" in self.alignments else None

    def record(self) -> dict[str, Any]:
        """The prediction as a JSON object, with words and weights if the prediction has them."""
        result: dict[str, Any] = {
            "labels": list(self.labels),
            "probabilities": {name: round(p, DECIMALS) for name, p in self.probabilities.items()},
            "warnings": list(self.warnings),
        }
        words, sentences = self.word_weights, self.sentence_weights
        if words is not None or sentences is not None:
            result["sentences"] = [list(sentence) for sentence in self.sentences]
        if words is not None:
            result["word_weights"] = [
                _rounded(row[: len(sentence)]) for row, sentence in zip(words, self.sentences, strict=False)
            ]
        if sentences is not None:
            result["sentence_weights"] = _rounded(sentences)
        return result


def _rounded(weights: Tensor) -> list[float]:
    return [round(weight, DECIMALS) for weight in weights.tolist()]


MOST_SHOWN = 20
"""The most labels of a confusion matrix as text."""
LONGEST_NAME, WIDEST = 24, 90
"""The most characters of a name, and of all names in a row."""
TINY = 1e-30
"""The lower bound of probabilities in logarithms."""


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document with its prediction."""

    document: Document
    prediction: DocumentPrediction

    @property
    def is_right(self) -> bool:
        """Whether the predicted labels are those of the document."""
        return set(self.document.labels) == set(self.prediction.labels)

    @property
    def confidence(self) -> float | None:
        """The probability that the labels are right, as the model states it."""
        return self.prediction.confidence

    @property
    def mistake(self) -> float:
        """The size of the largest mistake: the probability of a wrong label, or that a missing one is absent."""
        right, predicted = set(self.document.labels), set(self.prediction.labels)
        probabilities = self.prediction.probabilities
        wrong = [probabilities[name] for name in predicted - right]
        missing = [1 - probabilities.get(name, 0.0) for name in right - predicted]
        return max(wrong or missing, default=0.0)

    @property
    def place(self) -> str:
        """File and line of the document."""
        return self.document.place

    def record(self) -> dict[str, Any]:
        """The document as a JSON object."""
        return {
            "place": self.place,
            "input": self.document.text,
            "references": [list(self.document.labels)],
            "output": list(self.prediction.labels),
            "errors": len(set(self.document.labels) - set(self.prediction.labels)),
            "length": len(self.document.labels),
            "score": round(self.prediction.probability, DECIMALS),
            "confidence": self.confidence,
        }

    def __str__(self) -> str:
        right, predicted = (" and ".join(names) or "none" for names in (self.document.labels, self.prediction.labels))
        shown = shorten(" ".join(self.document.text.split()))
        return f"{self.place}  {right}, predicted {predicted} ({self.mistake:.2f})\n  {shown}"


@dataclass(frozen=True, slots=True)
class DocumentEvaluation:
    """Predictions against the labels of documents.

    Args:
        names: the labels of the model, followed by unknown labels of the documents.
        loss: mean negative log-likelihood in nats of the documents whose labels the model knows; None if there are
            none.
        warnings: labels of the documents that the model does not know.
    """

    scored: Sequence[ScoredDocument]
    names: tuple[str, ...]
    scores: LabelScores
    loss: float | None
    warnings: Sequence[str] = ()

    @property
    def metrics(self) -> dict[str, float]:
        """Shares from 0 to 1 and the loss, by name, and the number of documents.

        accuracy: the share of documents with exactly the right labels (exact match); error_rate: of the others;
        macro_f1, micro_f1: `LabelScores`.
        """
        return {
            "error_rate": 1 - self.scores.accuracy,
            "accuracy": self.scores.accuracy,
            "macro_f1": self.scores.macro.f1,
            "micro_f1": self.scores.micro.f1,
            **({} if self.loss is None else {"loss": self.loss}),
            "documents": len(self.scored),
        }

    def terms(self, labels: Labels) -> ItemTerms:
        """What each document adds to the metrics.

        Args:
            labels: those of the model.
        """
        scored = self.scored
        sides = [entry.prediction.labels for entry in scored], [entry.document.labels for entry in scored]
        losses = [_loss_of(entry, labels) for entry in scored]
        known = [loss is not None for loss in losses]
        metrics = {
            "error_rate": ratio_terms([not entry.is_right for entry in scored], is_share=True),
            "macro_f1": f1_terms(*sides),
            "micro_f1": f1_terms(*sides, macro=False),
            **({"loss": ratio_terms([loss or 0.0 for loss in losses], known)} if any(known) else {}),
        }

        def show(index: int) -> ShownItem:
            document, names = scored[index].document, scored[index].prediction.labels
            text = " ".join(document.text.split())
            return ShownItem(document.place, text, ", ".join(document.labels), ", ".join(names), document.text)

        return ItemTerms([entry.place for entry in scored], metrics, show)

    @property
    def worst(self) -> list[ScoredDocument]:
        """The documents with mistakes, those of the highest probability first."""
        return sorted((entry for entry in self.scored if not entry.is_right), key=lambda entry: -entry.mistake)

    @property
    def details(self) -> Mapping[str, Any]:
        """The labels with precision, recall, F1 and support, and the confusion matrix (`LabelScores.confusion`)."""
        columns = (self.scores.precision, self.scores.recall, self.scores.f1, self.scores.support)
        figures = {
            name: {
                "precision": round(float(precision), 6),
                "recall": round(float(recall), 6),
                "f1": round(float(f1), 6),
                "support": int(support),
            }
            for name, precision, recall, f1, support in zip(self.names, *columns, strict=True)
        }
        return {"labels": figures, "confusion": self.scores.confusion.tolist()}

    def __str__(self) -> str:
        metrics = self.metrics
        first = "exact match" if self.scores.several else "accuracy"
        line = (
            f"{counted(len(self.scored), 'document|documents')}: {first} {metrics['accuracy']:.2%}, macro F1 "
            f"{metrics['macro_f1']:.4f}, "
            f"micro F1 {metrics['micro_f1']:.4f}" + ("" if self.loss is None else f", loss {self.loss:.4f}")
        )
        if len(self.names) > MOST_SHOWN:
            return line
        return "\n".join([line, "", *(self._by_label() if self.scores.several else self._confusion())])

    def _confusion(self) -> Iterator[str]:
        """A row for each true label, a column for each predicted one; numbers replace names that are too long."""
        names, columns = (
            [cut(name, LONGEST_NAME) for name in self.names],
            [cut(name, LONGEST_NAME) for name in self.names],
        )
        if sum(len(name) + 2 for name in columns) > WIDEST:
            columns = [str(number) for number in range(1, len(columns) + 1)]
            names = [f"{number:>2} {name}" for number, name in enumerate(names, start=1)]
        head = "true \\ predicted"
        width = max(map(len, [head, *names]))
        counts = [[f"{count:,}" for count in row] for row in self.scores.confusion.tolist()]
        widths = [max(len(name), *(len(row[i]) for row in counts)) for i, name in enumerate(columns)]
        for name, row in zip([head, *names], [columns, *counts], strict=True):
            yield f"{name:{width}}  " + "  ".join(f"{cell:>{size}}" for cell, size in zip(row, widths, strict=True))

    def _by_label(self) -> Iterator[str]:
        """A row for each label."""
        width = max(len(cut(name, LONGEST_NAME)) for name in self.names)
        yield f"{'':{width}}  precision  recall      F1  documents"
        columns = (self.scores.precision, self.scores.recall, self.scores.f1, self.scores.support)
        for name, precision, recall, f1, support in zip(self.names, *columns, strict=True):
            yield f"{cut(name, LONGEST_NAME):{width}}  {precision:9.4f}  {recall:6.4f}  {f1:6.4f}  {support:9,}"


def evaluation(
    documents: Sequence[Document], predictions: Sequence[DocumentPrediction], labels: Labels
) -> DocumentEvaluation:
    """Compares predictions with the labels of the documents.

    Args:
        labels: those of the model; a document with another label counts as wrong.
    """
    unknown = SymbolTally()
    for item in documents:
        unknown.add(item.place, (name for name in item.labels if name not in labels))
    every = Labels([*labels.names, *sorted(unknown.names)], several=labels.several)
    scored = [ScoredDocument(*entry) for entry in zip(documents, predictions, strict=True)]
    predicted = [Document("", entry.prediction.labels, entry.document.file) for entry in scored]
    arrays = [every.indicators(items) if labels.several else every.ids(items) for items in (predicted, documents)]
    losses = [loss for entry in scored if (loss := _loss_of(entry, labels)) is not None]
    return DocumentEvaluation(
        scored,
        every.names,
        score_labels(*arrays, num_labels=len(every)),
        float(np.mean(losses)) if losses else None,
        unknown.lines(
            "document|documents has|have labels that the training lacks; counted as wrong, and left out of the loss"
        ),
    )


def _loss_of(entry: ScoredDocument, labels: Labels) -> float | None:
    """Nats of the right labels; None if the model does not know them or has no probabilities."""
    probabilities = entry.prediction.probabilities
    if not probabilities or any(name not in labels for name in entry.document.labels):
        return None
    return _loss(entry.document.labels, probabilities, several=labels.several)


def _loss(right: tuple[str, ...], probabilities: Mapping[str, float], *, several: bool) -> float:
    """Nats of the right labels."""
    if not several:
        return -math.log(max(probabilities[right[0]], TINY))
    shares = (p if name in right else 1 - p for name, p in probabilities.items())
    return -sum(math.log(max(share, TINY)) for share in shares)
