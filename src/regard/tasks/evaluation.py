"""The figures of a model on held-out pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regard.data.references import Item
from regard.data.scoring import symbol_errors
from regard.data.translation import CorpusScore
from regard.decoding import Prediction

ALIASES = {"wer": "sequence_error_rate", "per": "symbol_error_rate", "loss": "teacher_forced_loss"}
"""Short names of metrics, as the pronunciation literature has them: word and phone error rate."""
TITLES = {"bleu": "BLEU", "chrf": "chrF"}


@dataclass(frozen=True, slots=True)
class Scored:
    """An item with its output: `errors` is the least edit distance over its references, `length` that one's length."""

    item: Item
    prediction: Prediction
    errors: int
    length: int

    @property
    def is_right(self) -> bool:
        """Whether the output equals one of the references."""
        return self.errors == 0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Free-running outputs against references.

    sequence_error_rate: the share of items whose output equals none of their references (WER when items are words).
    symbol_error_rate: edit distances to the nearest reference over its length, summed over items (PER for phones).
    bleu, chrf: of all outputs together, from 0 to 100, where they were asked for (`regard.data.corpus_score`).
    """

    scored: Sequence[Scored]
    corpus: Mapping[str, CorpusScore] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, float]:
        """The figures by name: rates from 0 to 1, figures of all outputs together, and the number of items."""
        count = len(self.scored)
        symbols = sum(one.length for one in self.scored)
        wrong, errors = sum(not one.is_right for one in self.scored), sum(one.errors for one in self.scored)
        return {
            "sequence_error_rate": wrong / count if count else float("nan"),
            "symbol_error_rate": errors / symbols if symbols else float("inf") if errors else 0.0,
            **{name: figure.value for name, figure in self.corpus.items()},
            "items": count,
        }

    @property
    def worst(self) -> list[Scored]:
        """The wrong items, those with most errors a symbol first."""
        wrong = [one for one in self.scored if not one.is_right]
        return sorted(wrong, key=lambda one: -one.errors / max(one.length, 1))

    def __str__(self) -> str:
        metrics = self.metrics
        rates = (
            f"{len(self.scored):,} items: sequence error rate {metrics['sequence_error_rate']:.2%}, "
            f"symbol error rate {metrics['symbol_error_rate']:.2%}"
        )
        figures = (f"{TITLES[name]} {one.value:.2f}  {one.signature}" for name, one in self.corpus.items())
        return "\n".join([rates, *figures])


def score(item: Item, prediction: Prediction, output: Sequence[str], references: Sequence[Sequence[str]]) -> Scored:
    """An item with the errors of its output, in symbols."""
    errors, length = symbol_errors(output, references)
    return Scored(item, prediction, errors, length)
