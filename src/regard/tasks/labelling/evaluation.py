"""The metrics of labelled sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.data import LabelScores, score_labels
from regard.tasks.labelling.reading import Sentence


@dataclass(frozen=True, slots=True)
class Labelling:
    """The labels of a sentence.

    Args:
        tokens: S strings.
        labels: S strings.
        probabilities: S numbers, of the labels.
        alignment: (H, S, S) of what each token attended to, or None.
        warnings: what the user should know about the sentence.
    """

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    alignment: Any = None
    warnings: tuple[str, ...] = ()


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
        """How many tokens have another label."""
        return sum(map(str.__ne__, self.sentence.labels, self.prediction.labels))

    def record(self) -> dict[str, Any]:
        """The sentence as a JSON object."""
        return {
            "tokens": list(self.sentence.tokens),
            "references": list(self.sentence.labels),
            "labels": list(self.prediction.labels),
            "errors": self.errors,
            "place": self.place,
        }

    def __str__(self) -> str:
        rows = zip(self.sentence.tokens, self.prediction.labels, self.sentence.labels)
        marked = " ".join(f"{token}/{label}" + f"[{right}]" * (label != right) for token, label, right in rows)
        return f"{self.place}  ({self.errors} of {len(self.sentence.tokens)} tokens)\n  {marked}"


@dataclass(frozen=True)
class LabellingEvaluation:
    """Labels of sentences against references.

    token_error_rate: the share of tokens with another label. sentence_error_rate: of sentences with any such token.
    macro_f1: the mean of the labels' F1. span_f1: F1 of whole spans (`spans`), as entities are scored (CoNLL 2000).
    """

    scored: Sequence[ScoredSentence]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of references and predictions, in order."""
        return tuple(
            sorted({label for each in self.scored for label in (*each.sentence.labels, *each.prediction.labels)})
        )

    @cached_property
    def scores(self) -> LabelScores:
        """Counts of all tokens."""
        ids = {label: number for number, label in enumerate(self.labels)}
        outputs = np.array([ids[label] for each in self.scored for label in each.prediction.labels])
        references = np.array([ids[label] for each in self.scored for label in each.sentence.labels])
        return score_labels(outputs, references, num_labels=len(self.labels))

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name: rates from 0 to 1, and the number of sentences."""
        given = [spans(each.prediction.labels) for each in self.scored]
        meant = [spans(each.sentence.labels) for each in self.scored]
        right = sum(len(each & other) for each, other in zip(given, meant))
        total = sum(map(len, given)) + sum(map(len, meant))
        return {
            "token_error_rate": 1 - self.scores.accuracy,
            "sentence_error_rate": sum(each.errors > 0 for each in self.scored) / len(self.scored),
            "macro_f1": self.scores.macro_f1,
            "span_f1": 2 * right / total if total else 0.0,
            "sentences": len(self.scored),
        }

    @property
    def worst(self) -> list[ScoredSentence]:
        """The sentences with wrong labels, those with the most first."""
        return sorted((each for each in self.scored if each.errors), key=lambda each: -each.errors)

    @property
    def details(self) -> Mapping[str, Any]:
        """The labels and the tokens by reference (row) and label (column)."""
        return {"labels": list(self.labels), "confusion": self.scores.confusion.tolist()}

    def __str__(self) -> str:
        metrics = self.metrics
        return (
            f"{metrics['sentences']:,} sentences: token error rate {metrics['token_error_rate']:.2%}, sentence error "
            f"rate {metrics['sentence_error_rate']:.2%}, macro F1 {metrics['macro_f1']:.4f}, span F1 "
            f"{metrics['span_f1']:.4f}"
        )


def spans(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """The kind, begin and end of each span: runs of `B-x I-x …`, or of one label if labels have no such prefixes.

    `O` is no span; an `I-x` that continues nothing begins one, as in the evaluation of CoNLL 2000.

    >>> sorted(spans(["B-per", "I-per", "O", "B-loc", "B-loc"]))
    [('loc', 3, 4), ('loc', 4, 5), ('per', 0, 2)]
    """
    result, begin, kind = set(), 0, "O"
    for i, label in enumerate([*labels, "O"]):
        prefix, dash, name = label.partition("-")
        is_marked = bool(dash) and prefix in ("B", "I")
        own = name if is_marked else label
        if own != kind or (is_marked and prefix == "B"):
            if kind != "O":
                result.add((kind, begin, i))
            begin, kind = i, own
    return result
