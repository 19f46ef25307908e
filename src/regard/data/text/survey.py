"""Statistics of a split from one pass: lengths and hashes, about 34 bytes per pair, and the distinct symbols."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from regard.data.pairs import Pairs
from regard.data.text.field import Field

MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Affix:
    """The symbols that all texts of a side begin or end with, except for empty texts.

    Args:
        symbols: in the order of the texts.
        num_texts: the number of texts with symbols.
    """

    symbols: tuple[str, ...]
    num_texts: int


@dataclass(frozen=True, slots=True)
class SideSurvey:
    """Statistics of the texts of one side.

    Args:
        name: `source` or `target`.
        lengths: (pairs,) symbols of each text.
        hashes: (pairs,) uint64, of the normalised texts.
        counts: the number of occurrences of each symbol.
        first: the index of the first pair with each symbol.
        prefix, suffix: the symbols that all texts begin and end with.
    """

    name: str
    field: Field
    lengths: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    counts: Mapping[str, int]
    first: Mapping[str, int]
    prefix: Affix
    suffix: Affix

    @property
    def unknown(self) -> list[str]:
        """The symbols that are not in the vocabulary, by descending frequency."""
        unknown = (symbol for symbol in self.counts if symbol not in self.field.vocabulary)
        return sorted(unknown, key=lambda symbol: (-self.counts[symbol], symbol))


@dataclass(frozen=True, slots=True)
class Survey:
    """The pairs of a split with statistics of their sides."""

    name: str
    pairs: Pairs
    source: SideSurvey
    target: SideSurvey

    def other(self, side: SideSurvey) -> SideSurvey:
        """The other one of the two sides."""
        return self.target if side is self.source else self.source

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """(pairs,) uint64, of source and target together."""
        return self.source.hashes * MIX + self.target.hashes


def survey(name: str, pairs: Pairs, source: Field, target: Field) -> Survey:
    """Reads all pairs of a split once."""
    sides = (_Collector("source", source), _Collector("target", target))
    for i, pair in enumerate(pairs):
        sides[0].add(i, pair.source)
        sides[1].add(i, pair.target)
    return Survey(name, pairs, sides[0].result(), sides[1].result())


class _Collector:
    def __init__(self, name: str, field: Field) -> None:
        self.name = name
        self.field = field
        self.lengths = array("q")
        self.hashes = array("Q")
        self.counts: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.prefix: tuple[str, ...] | None = None
        self.suffix: tuple[str, ...] | None = None  # reversed

    def add(self, index: int, text: str) -> None:
        text = self.field.normalisation(text)
        tokens = self.field.units.split(text)
        self.lengths.append(len(tokens))
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self.hashes.append(int.from_bytes(digest, "big"))
        self.first.update(dict.fromkeys(set(tokens) - self.counts.keys(), index))
        self.counts.update(tokens)
        if tokens and self.prefix != ():
            self.prefix = _common(self.prefix, tokens)
        if tokens and self.suffix != ():
            self.suffix = _common(self.suffix, tokens[::-1])

    def result(self) -> SideSurvey:
        lengths = np.array(self.lengths, dtype=np.int64)
        num_texts = int(np.count_nonzero(lengths))
        return SideSurvey(
            self.name,
            self.field,
            lengths,
            np.array(self.hashes, dtype=np.uint64),
            self.counts,
            self.first,
            Affix(self.prefix or (), num_texts),
            Affix((self.suffix or ())[::-1], num_texts),
        )


def _common(prefix: tuple[str, ...] | None, tokens: Sequence[str]) -> tuple[str, ...]:
    """The common prefix of a prefix and a text; the whole text if there is no prefix yet."""
    if prefix is None:
        return tuple(tokens)
    return tuple(symbol for symbol, _ in takewhile(lambda pair: pair[0] == pair[1], zip(prefix, tokens)))
