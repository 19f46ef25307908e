"""A classified document: sentences of words, and the weights of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, ShapeError

Emphasis = Literal["root", "product"]


@dataclass(frozen=True)
class WeightedDocument:
    """Sentences of words with their weights in a network.

    Args:
        sentences: the words of each sentence.
        word_weights: (S, W) or longer, an array, a tensor or lists, from the first word of each sentence on; the rest
            is padding and is ignored. In a hierarchy the weights of each sentence sum to 1, in a flat network those of
            the document.
        sentence_weights: (S,) or longer; None for a flat network.
        predicted: the predicted label; several are joined by commas.
        probability: of that label.
        label: the true label, if it is known.

    Raises:
        ShapeError: if there are fewer weights than words or sentences.

    >>> document = WeightedDocument([["a", "b"], ["c"]], [[0.9, 0.1], [1.0, 0.0]], [0.64, 0.36])
    >>> [row.round(2).tolist() for row in document.emphasis()]
    [[0.72, 0.08], [0.6]]
    """

    sentences: Sequence[Sequence[str]]
    word_weights: Any
    sentence_weights: Any = None
    predicted: str | None = None
    probability: float | None = None
    label: str | None = None
    words: tuple[NDArray[np.float64], ...] = field(init=False, repr=False)
    weights: NDArray[np.float64] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sizes = [len(sentence) for sentence in self.sentences]
        if any(isinstance(sentence, str) for sentence in self.sentences):
            raise ShapeError("sentences must be lists of words; got a text. Split it, for example by text.split().")
        rows = [_numbers(row) for row in _listed(self.word_weights)]
        if len(rows) < len(sizes) or any(len(row) < size for row, size in zip(rows, sizes, strict=False)):
            raise ShapeError(
                f"word_weights must have a weight for each word; the sentences have {sizes} words, "
                f"the weights are {[len(row) for row in rows]}."
            )
        weights = None if self.sentence_weights is None else _numbers(self.sentence_weights)
        if weights is not None and len(weights) < len(sizes):
            raise ShapeError(f"sentence_weights must be (S={len(sizes)},) or longer; got {len(weights)}.")
        words = tuple(row[:size] for row, size in zip(rows, sizes, strict=False))
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "weights", None if weights is None else weights[: len(sizes)])

    def emphasis(self, kind: Emphasis = "root") -> list[NDArray[np.float64]]:
        """The strength with which each word is shown: √p_s · p_w of the weights of sentence and word.

        The product p_s · p_w is the word's share of the document's vector; the root of p_s keeps important words of
        unimportant sentences visible. In a flat network the strength is p_w.

        Args:
            kind: root or product.

        Yang et al. 2016 (aclanthology N16-1174) show words and sentences in one picture; it could not be verified that
        they show this root.
        """
        if kind not in get_args(Emphasis):
            raise RegardError(f"emphasis must be 'root' or 'product'; got {kind!r}.")
        if self.weights is None:
            return list(self.words)
        shares = np.sqrt(self.weights) if kind == "root" else self.weights
        return [share * words for share, words in zip(shares, self.words, strict=True)]


def largest_emphasis(documents: Sequence[WeightedDocument], kind: Emphasis) -> float:
    """The strongest finite emphasis of a word, 1 if there is none above 0."""
    rows = [row[np.isfinite(row)] for item in documents for row in item.emphasis(kind)]
    return max((float(row.max()) for row in rows if row.size), default=0.0) or 1.0


def scale_labels(documents: Sequence[WeightedDocument], kind: Emphasis, highest: float) -> list[str]:
    """The labels of the scale of colours of words and, in a hierarchy, of that of sentences."""
    if all(item.weights is None for item in documents):
        return [f"0 to {highest:.3g}: word weight"]
    name = {"root": "√sentence weight × word weight", "product": "sentence weight × word weight"}[kind]
    return [f"0 to {highest:.3g}: {name}", "0 to 1: sentence weight"]


def _listed(values: Any) -> list[Any]:
    return list(values.detach().cpu()) if hasattr(values, "detach") else list(values)


def _numbers(values: Any) -> NDArray[np.float64]:
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)
