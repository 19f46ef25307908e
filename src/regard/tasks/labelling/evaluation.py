"""The metrics of labelled sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from regard.data.tally import SymbolTally
from regard.errors import counted
from regard.metrics import (
    ItemTerms,
    LabelScores,
    ShownItem,
    SpanScheme,
    SpanScores,
    f1_terms,
    ratio_terms,
    score_labels,
    score_spans,
)
from regard.metrics.spans import TITLES, Span
from regard.tasks.labelling.columns import Sentence
from regard.viz import plot_alignment
from regard.viz.notebook import embedded_page, shown_text


@dataclass(frozen=True, slots=True)
class Labelling:
    """The labels of a sentence.

    Args:
        tokens: S strings.
        labels: S strings.
        probabilities: S numbers, of the labels.
        alignment: (H, S, S), the weights of each token's attention, or None.
        warnings: why the sentence could not be labelled as it is.
        confidences: S numbers from 0 to 1, the probabilities of the labels at the temperature of the model.
        confidence: the probability, from 0 to 1, that all labels are right.
        logarithms: (S, L), the log-probabilities of all labels; None unless they were asked for.
    """

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    alignment: Any = None
    warnings: tuple[str, ...] = ()
    confidences: tuple[float, ...] = ()
    confidence: float | None = None
    logarithms: Any = field(default=None, repr=False, compare=False)

    def _repr_html_(self) -> str:
        """The tokens with their labels and, if there is one, the attention, for notebooks."""
        pairs = [f"{token}/{label}" for token, label in zip(self.tokens, self.labels, strict=True)]
        if self.alignment is None or not pairs:
            return shown_text(" ".join(pairs), *self.warnings)
        weights, text = self.alignment.mean(0), " ".join(pairs)
        sides = ("tokens", "tokens with labels")
        return embedded_page(
            lambda path: plot_alignment(weights, path, self.tokens, pairs, title=text, sides=sides), text
        )


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A sentence with its labels."""

    sentence: Sentence
    prediction: Labelling

    @property
    def place(self) -> str:
        """File and line of the first token."""
        return self.sentence.place

    @property
    def errors(self) -> int:
        """The number of tokens with another label than the file's."""
        return sum(right not in ("", label) for right, label in zip(self.sentence.labels, self.prediction.labels))

    @property
    def is_right(self) -> bool:
        """Whether all tokens have the file's labels."""
        return not self.errors

    @property
    def confidence(self) -> float | None:
        """The probability that all labels are right, as the model states it."""
        return self.prediction.confidence

    def record(self) -> dict[str, Any]:
        """The sentence as a JSON object."""
        return {
            "place": self.place,
            "input": list(self.sentence.tokens),
            "references": [list(self.sentence.labels)],
            "output": list(self.prediction.labels),
            "errors": self.errors,
            "length": sum(label != "" for label in self.sentence.labels),
            "score": math.prod(self.prediction.probabilities),
            "confidence": self.confidence,
        }

    def __str__(self) -> str:
        rows = zip(self.sentence.tokens, self.prediction.labels, self.sentence.labels)
        marked = " ".join(
            f"{token}/{label}" + f"[{right}]" * (right not in ("", label)) for token, label, right in rows
        )
        return (
            f"{self.place}  ({self.errors} of {counted(len(self.sentence.tokens), 'token|tokens')} wrong)\n  {marked}"
        )


@dataclass(frozen=True)
class LabellingEvaluation:
    """Labels of sentences against references; tokens without a reference do not count.

    token_error_rate: the share of tokens with a wrong label. sentence_error_rate: of sentences with such a token.
    macro_f1: the mean of the labels' F1. If the labels mark spans, span_f1: F1 of whole spans of all types together, as
    entities are scored (conlleval, and seqeval by default); span_f1_strict: of the spans that the scheme can write
    (`SpanScheme.spans`).

    Args:
        scheme: of the labels that mark spans; None if they mark none.
        known: the labels of the model; None: all.
    """

    scored: Sequence[ScoredSentence]
    scheme: SpanScheme | None = None
    known: frozenset[str] | None = None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of references and predictions, in order."""
        return tuple(sorted({label for pair in self._pairs for label in pair}))

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        """The label of each token with a reference, and the reference."""
        return [
            (label, right)
            for each in self.scored
            for label, right in zip(each.prediction.labels, each.sentence.labels)
            if right
        ]

    @cached_property
    def scores(self) -> LabelScores:
        """Counts of all tokens."""
        ids = {label: number for number, label in enumerate(self.labels)}
        outputs, references = np.array([[ids[label] for label in pair] for pair in self._pairs]).T
        return score_labels(outputs, references, num_labels=len(self.labels))

    def terms(self) -> ItemTerms:
        """What each sentence adds to the metrics."""
        scored, errors = self.scored, np.array([each.errors for each in self.scored])
        counts = [sum(label != "" for label in each.sentence.labels) for each in scored]
        references = [each.sentence.labels for each in scored]
        outputs, right = (
            [[(label, i) for i, label in enumerate(labels) if known[i]] for labels, known in zip(side, references)]
            for side in ([each.prediction.labels for each in scored], references)
        )
        metrics = {
            "token_error_rate": ratio_terms(errors, counts, is_share=True),
            "sentence_error_rate": ratio_terms(errors > 0, is_share=True),
            "macro_f1": f1_terms(outputs, right),
        }
        for name, strict in (("span_f1", False), ("span_f1_strict", True)):
            if (spans := self._spans(strict=strict)) is not None:
                metrics[name] = f1_terms(*spans, macro=False)

        def show(index: int) -> ShownItem:
            sentence, prediction = scored[index].sentence, scored[index].prediction
            source, reference, output = map(" ".join, (sentence.tokens, sentence.labels, prediction.labels))
            return ShownItem(sentence.place, source, reference, output, sentence.tokens)

        return ItemTerms([each.place for each in scored], metrics, show)

    def spans(self, *, strict: bool = False) -> SpanScores | None:
        """Counts of spans; None if the labels mark none."""
        spans = self._spans(strict=strict)
        return None if spans is None else score_spans(*spans)

    def _spans(self, *, strict: bool) -> list[list[set[Span]]] | None:
        """The spans of each sentence, of outputs and of references."""
        scheme = self.scheme
        if scheme is None:
            return None
        references = [each.sentence.labels for each in self.scored]
        outputs = [
            [label if right else "" for label, right in zip(each.prediction.labels, each.sentence.labels)]
            for each in self.scored
        ]
        return [[scheme.spans(labels, strict=strict) for labels in side] for side in (outputs, references)]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The metrics by name: rates from 0 to 1, and the number of sentences."""
        spans = {"span_f1": self.spans(), "span_f1_strict": self.spans(strict=True)}
        return {
            "token_error_rate": 1 - self.scores.accuracy,
            "sentence_error_rate": sum(each.errors > 0 for each in self.scored) / len(self.scored),
            "macro_f1": self.scores.macro.f1,
            **{name: scores.figures()["f1"] for name, scores in spans.items() if scores is not None},
            "sentences": len(self.scored),
        }

    @property
    def worst(self) -> list[ScoredSentence]:
        """The sentences with wrong labels, those with the most first."""
        return sorted((each for each in self.scored if each.errors), key=lambda each: -each.errors)

    @property
    def warnings(self) -> Sequence[str]:
        """Labels of the references that the model does not have, and tokens without a reference."""
        unknown, known = SymbolTally(), self.known
        for each in self.scored:
            labels = (label for label in each.sentence.labels if label and known is not None and label not in known)
            unknown.add(each.place, labels)
        lines = unknown.lines(
            "sentence|sentences has|have labels that the training lacks; the model cannot be right there"
        )
        if missing := sum(label == "" for each in self.scored for label in each.sentence.labels):
            lines.append(counted(missing, "token|tokens has|have no label in the file and is|are not scored"))
        return lines

    @property
    def details(self) -> Mapping[str, Any]:
        """The labels, the confusion matrix (rows are references), and precision, recall and F1 of spans."""
        details: dict[str, Any] = {"labels": list(self.labels), "confusion": self.scores.confusion.tolist()}
        if self.scheme is not None:
            details["spans"] = {"scheme": str(self.scheme)}
            for mode, scores in (("default", self.spans()), ("strict", self.spans(strict=True))):
                assert scores is not None
                types = {kind: scores.figures(kind) | {"support": scores.support.get(kind, 0)} for kind in scores.types}
                details["spans"][mode] = {**scores.figures(), "types": types}
        return details

    def __str__(self) -> str:
        metrics = self.metrics
        line = (
            f"{counted(int(metrics['sentences']), 'sentence|sentences')}: token error rate "
            f"{metrics['token_error_rate']:.2%}, sentence error "
            f"rate {metrics['sentence_error_rate']:.2%}, macro F1 {metrics['macro_f1']:.4f}"
        )
        if self.scheme is None:
            return line
        strict = f"{TITLES[self.scheme.name]}; strict {metrics['span_f1_strict']:.4f}"
        return f"{line}, span F1 {metrics['span_f1']:.4f} ({strict})"
