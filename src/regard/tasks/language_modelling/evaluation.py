"""The likelihood of a text, and of its stretches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from regard.data.text import RunningText
from regard.data.text.running_text import decode, line_end
from regard.errors import counted
from regard.metrics import ItemTerms, Likelihood, MetricTerms, ShownItem, ratio_terms
from regard.metrics.bootstrap import Array, divided

STRETCH = 64
"""The approximate number of characters of a stretch, of which the worst are shown."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a text with its likelihood."""

    place: str
    text: str
    nats: float
    num_tokens: int
    warnings: tuple[str, ...] = ()

    @property
    def prediction(self) -> Stretch:
        """The stretch itself, whose likelihood is its prediction."""
        return self

    @property
    def nats_per_token(self) -> float:
        """The mean over its tokens."""
        return self.nats / self.num_tokens

    def record(self) -> dict[str, Any]:
        """The stretch as a JSON object."""
        return {
            "place": self.place,
            "input": self.text,
            "references": [],
            "output": None,
            "errors": None,
            "length": self.num_tokens,
            "score": -self.nats,
            "confidence": None,
            "nats_per_token": self.nats_per_token,
        }

    def __str__(self) -> str:
        return f"{self.place}  {self.nats_per_token:.3f} nats per token  {self.text!r}"


class Stretches(Sequence[Stretch]):
    """The stretches of a text, made on access.

    Args:
        text: all of it is in `text.train`.
        nats: (tokens,) the negative log-likelihood of every token.
        order: the numbers of the stretches; as in the text if None.
    """

    def __init__(
        self, name: str, text: RunningText, nats: NDArray[np.float64], order: NDArray[np.int64] | None = None
    ) -> None:
        self._name, self._text, self._nats, self._order = name, text, nats, order
        self._length = max(8, round(STRETCH * text.train.num_tokens / max(text.train.num_characters, 1)))
        end = line_end(text.field)
        self._ends = np.flatnonzero(text.ids == end) if end is not None else None

    @property
    def tokens(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(tokens,) the id and the nats of every token."""
        return np.asarray(self._text.ids[: len(self._nats)], dtype=np.int64), self._nats

    def __len__(self) -> int:
        return -(-len(self._nats) // self._length)

    @overload
    def __getitem__(self, index: int) -> Stretch: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Stretch]: ...

    def __getitem__(self, index: int | slice) -> Stretch | Sequence[Stretch]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        number = index % len(self)
        start = (number if self._order is None else int(self._order[number])) * self._length
        nats = self._nats[start : start + self._length]
        line = 1 if self._ends is None else int(np.searchsorted(self._ends, start)) + 1
        text = decode(self._text.field, self._text.ids[start : start + self._length].tolist())
        return Stretch(f"{self._name}:{line}", text, float(nats.sum()), len(nats))

    def __iter__(self) -> Iterator[Stretch]:
        return map(self.__getitem__, range(len(self)))

    def terms(self, units: str) -> ItemTerms:
        """What each line adds to the metrics. Lines are the same for all models, unlike stretches of tokens.

        Args:
            units: the tokens of the text; perplexities of tokens of other units are not comparable.
        """
        assert self._text.lines is not None
        ends = self._text.lines
        tokens, characters, words = np.diff(ends, axis=0).T
        nats = np.diff(np.concatenate([[0.0], np.cumsum(self._nats)])[ends[:, 0]])
        metrics = {
            "bits_per_character": ratio_terms(nats / math.log(2), characters),
            "perplexity": MetricTerms(np.stack([nats, tokens], 1), exponential, basis=units),
            "perplexity_per_word": MetricTerms(np.stack([nats, words], 1), exponential),
        }
        kept = np.flatnonzero(characters)

        def show(index: int) -> ShownItem:
            line = int(kept[index])
            text = decode(self._text.field, self._text.ids[ends[line, 0] : ends[line + 1, 0]].tolist()).rstrip("\n")
            return ShownItem(f"{self._name}:{line + 1}", text, read=text if text.strip() else None)

        everything = ItemTerms(list(range(len(characters))), metrics, lambda index: ShownItem(""))
        return replace(everything.at(kept), show=show)

    def worst(self) -> Sequence[Stretch]:
        """All stretches, those with the most nats per token first."""
        starts = np.arange(0, len(self._nats), self._length)
        lengths = np.diff(np.append(starts, len(self._nats)))
        order = np.argsort(-np.add.reduceat(self._nats, starts) / lengths, kind="stable")
        return Stretches(self._name, self._text, self._nats, order)


@dataclass(frozen=True, slots=True)
class LikelihoodEvaluation:
    """The likelihood of a text, every token of which was scored once, after the true tokens before it.

    perplexity: of a token, exp of the nats per token (`loss`).
    bits_per_character: over the characters of the text as it was read, line ends included, whatever the units.
    perplexity_per_word: exp of the nats per word, with words separated by white space.

    An unknown token counts with the probability of `<unk>`, which is that of all unknown symbols together. So with many
    of them (`unknown`, their share) figures look better than they are, and those of different vocabularies cannot be
    compared.

    Args:
        num_unknown: tokens that are not in the vocabulary.
        unknown: the most frequent unknown symbols, with their counts.
    """

    likelihood: Likelihood
    num_unknown: int
    scored: Stretches
    unknown: Sequence[tuple[str, int]] = ()

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name, and the numbers of tokens, characters and words."""
        figures = self.likelihood
        return {
            **metrics(figures),
            "perplexity_per_word": figures.perplexity_per_word,
            "unknown": self.num_unknown / figures.num_tokens,
            "tokens": figures.num_tokens,
            "characters": figures.num_characters,
            "words": figures.num_words,
        }

    @property
    def worst(self) -> Sequence[Stretch]:
        """All stretches, those with the most nats per token first."""
        return self.scored.worst()

    @property
    def tokens(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(tokens,) the id and the nats of every token."""
        return self.scored.tokens

    @property
    def details(self) -> Mapping[str, Any]:
        return {}

    @property
    def warnings(self) -> Sequence[str]:
        """Tokens that are not in the vocabulary."""
        if not self.num_unknown:
            return []
        shown = ", ".join(f"{symbol!r} ({count:,})" for symbol, count in self.unknown)
        more = ", …" * (sum(count for _, count in self.unknown) < self.num_unknown)
        return [
            counted(self.num_unknown, f"of {self.likelihood.num_tokens:,} tokens is|are not in the vocabulary and ")
            + f"scored as <unk>, so the figures look better than they are: {shown}{more}"
        ]

    def __str__(self) -> str:
        figures = self.likelihood
        unknown = f", of which {counted(self.num_unknown, 'is|are unknown')}" if self.num_unknown else ""
        return f"{counted(figures.num_tokens, 'token|tokens')}{unknown}: {figures}"


def metrics(likelihood: Likelihood) -> dict[str, float]:
    """The metrics of validations, for `select`."""
    return {
        "perplexity": likelihood.perplexity,
        "bits_per_character": likelihood.bits_per_character,
        "loss": likelihood.nats_per_token,
    }


def exponential(sums: Array) -> Array:
    """exp of nats per token or word, from sums (..., 2)."""
    return np.exp(divided(sums[..., 0], sums[..., 1]))
