"""The labels that a model finds for a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.shapes import Float

DECIMALS = 6
"""Decimals of probabilities and weights in JSON."""


@dataclass(frozen=True, slots=True)
class DocumentPrediction:
    """The labels of a document, with the weights by which it was read.

    Args:
        labels: one; none or several if documents may have several, the most probable first.
        probabilities: of every label by name, the most probable first; they sum to 1 if documents have one label.
        sentences: the words of each sentence, as the model read them.
        alignments: by level, as in `regard.models.DocumentOutput` without the batch: `word` (H, S, W) and `sentence`
            (H, S); empty if they were not asked for, and a level is absent if it pools without weights.
        warnings: why the text could not be handled as it is; empty for most.
    """

    labels: tuple[str, ...]
    probabilities: Mapping[str, float]
    sentences: Sequence[Sequence[str]] = ()
    alignments: Mapping[str, Tensor] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

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
        """The prediction as a JSON object; it has words and weights if the prediction has them."""
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
