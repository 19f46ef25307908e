"""One pass over a split: lengths, hashes and unknown symbols, some 34 bytes a pair."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.field import Field
from regard.data.pairs import Pairs

MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A symbol that the vocabulary lacks: how often it occurs, and the first pair that has it."""

    symbol: str
    count: int
    first: int


@dataclass(frozen=True, slots=True)
class SideSurvey:
    """The texts of one side.

    Args:
        name: `source` or `target`.
        lengths: (pairs,) symbols of each text.
        hashes: (pairs,) uint64, of the normalised texts.
        unknown: the symbols that the vocabulary lacks, the most frequent first.
    """

    name: str
    lengths: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    unknown: tuple[Unknown, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """A split as the checks see it."""

    name: str
    pairs: Pairs
    source: SideSurvey
    target: SideSurvey

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
        self.unknown: dict[str, tuple[int, int]] = {}  # symbol -> occurrences, first pair

    def add(self, index: int, text: str) -> None:
        text = self.field.normalisation(text)
        tokens = self.field.units.split(text)
        self.lengths.append(len(tokens))
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self.hashes.append(int.from_bytes(digest, "big"))
        for symbol in self.field.vocabulary.unknown(tokens):
            count, first = self.unknown.get(symbol, (0, index))
            self.unknown[symbol] = count + 1, first

    def result(self) -> SideSurvey:
        unknown = (Unknown(symbol, count, first) for symbol, (count, first) in self.unknown.items())
        return SideSurvey(
            self.name,
            np.array(self.lengths, dtype=np.int64),
            np.array(self.hashes, dtype=np.uint64),
            tuple(sorted(unknown, key=lambda found: (-found.count, found.symbol))),
        )
