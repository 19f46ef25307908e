"""The metrics of texts as outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from regard.decoding import Prediction
from regard.errors import counted
from regard.metrics.translation import CorpusScore, Metric

TITLES = {"bleu": "BLEU", "chrf": "chrF"}


class WrittenItem(Protocol):
    """An input with its references."""

    @property
    def source(self) -> Any:
        """The input, as `predict` takes it; `str` shows it."""

    @property
    def references(self) -> Sequence[str]:
        """The texts that are right."""

    @property
    def place(self) -> str:
        """Where the item is from, such as `test.tsv:3`."""


@dataclass(frozen=True, slots=True)
class Scored:
    """An item with its output: `errors` is the edit distance to the nearest reference, `length` its length."""

    item: WrittenItem
    prediction: Prediction
    errors: int
    length: int

    @property
    def is_right(self) -> bool:
        """Whether the output equals one of the references."""
        return self.errors == 0

    @property
    def confidence(self) -> float | None:
        """The probability that the output is right, as the model states it."""
        return self.prediction.confidence

    @property
    def place(self) -> str:
        """Where the item is from."""
        return self.item.place

    def record(self) -> dict[str, Any]:
        """The item as a JSON object."""
        return {
            "place": self.place,
            "input": str(self.item.source),
            "references": list(self.item.references),
            "output": self.prediction.text,
            "errors": self.errors,
            "length": self.length,
            "score": self.prediction.score,
            "confidence": self.confidence,
        }

    def __str__(self) -> str:
        references = "".join(f"\n  reference  {text}" for text in self.item.references)
        errors = f"{counted(self.errors, 'error|errors')} in {counted(self.length, 'symbol|symbols')}"
        output = self.prediction.text or "(none)"
        return f"{self.place}  {self.item.source}  ({errors})\n  output     {output}{references}"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Free-running outputs against references.

    sequence_error_rate: the share of items whose output equals none of their references (WER when items are words).
    symbol_error_rate: edit distances to the nearest reference over its length, summed over items (PER for phones).
    bleu, chrf: of all outputs together, from 0 to 100, if they were computed (`regard.metrics.corpus_score`).
    further: figures that a task adds, by name.
    warnings: symbols of references that the model cannot write.
    """

    scored: Sequence[Scored]
    corpus: Mapping[Metric, CorpusScore] = field(default_factory=dict)
    further: Mapping[str, float] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name: rates from 0 to 1, scores of all outputs together, and the number of items."""
        count = len(self.scored)
        symbols = sum(entry.length for entry in self.scored)
        wrong = sum(not entry.is_right for entry in self.scored)
        errors = sum(entry.errors for entry in self.scored)
        return {
            "sequence_error_rate": wrong / count if count else float("nan"),
            "symbol_error_rate": errors / symbols if symbols else float("inf") if errors else 0.0,
            **self.further,
            **{name: score.value for name, score in self.corpus.items()},
            "items": count,
        }

    @property
    def worst(self) -> list[Scored]:
        """The wrong items, those with the most errors per symbol first."""
        wrong = [entry for entry in self.scored if not entry.is_right]
        return sorted(wrong, key=lambda entry: -entry.errors / max(entry.length, 1))

    @property
    def details(self) -> Mapping[str, Any]:
        """How the metrics of all outputs together were computed, if any were."""
        return {"signatures": {name: score.signature for name, score in self.corpus.items()}} if self.corpus else {}

    def __str__(self) -> str:
        metrics = self.metrics
        rates = (
            f"{counted(len(self.scored), 'item|items')}: sequence error rate {metrics['sequence_error_rate']:.2%}, "
            f"symbol error rate {metrics['symbol_error_rate']:.2%}"
        )
        further = "  ".join(f"{name} {value:.4g}" for name, value in self.further.items())
        scores = (f"{TITLES[name]} {score.value:.2f}  {score.signature}" for name, score in self.corpus.items())
        return "\n".join([rates, *([further] if further else []), *scores])
