"""The predictions of a call, a list that shows itself in notebooks, and the scores of given outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar

import numpy as np

PredictionT = TypeVar("PredictionT")
SHOWN = 5
"""The most predictions of a list that a notebook shows."""


class Predictions(list[PredictionT]):
    """A list of predictions, of which a notebook shows the first as they show themselves."""

    def _repr_html_(self) -> str:
        parts = []
        for prediction in self[:SHOWN]:
            show = getattr(prediction, "_repr_html_", None)
            parts.append(f"<pre>{escape(repr(prediction))}</pre>" if show is None else show())
        if len(self) > SHOWN:
            parts.append(f"<p>{len(self) - SHOWN:,} more</p>")
        return "\n".join(parts)


def rounded(values: Any, decimals: int = 6) -> Any:
    """Numbers of an array or a tensor as nested lists.

    >>> rounded(np.array([[1 / 3, 2]]), 2)
    [[0.33, 2.0]]
    """
    return np.asarray(values, np.float64).round(decimals).tolist()


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """How probable an output is, given its input.

    Args:
        tokens: the symbols of the output, "</s>" included, or its labels.
        log_probabilities: of each, in nats.
        confidence: the probability, from 0 to 1, that the output is right; None of models without confidences.
        warnings: what the user should know about the pair; without tokens, why it cannot be read.
    """

    tokens: Sequence[str]
    log_probabilities: Sequence[float]
    confidence: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def log_probability(self) -> float:
        """That of the whole output: the sum; NaN of a pair that cannot be read."""
        return sum(self.log_probabilities) if self.tokens else float("nan")

    def record(self) -> dict[str, Any]:
        """The score as a JSON object."""
        return {
            "log_probability": self.log_probability if self.tokens else None,
            "tokens": list(self.tokens),
            "token_log_probabilities": list(self.log_probabilities),
            "confidence": self.confidence,
            "warnings": list(self.warnings),
        }
