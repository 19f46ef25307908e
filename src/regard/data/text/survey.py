"""One pass over pairs: the ids of their symbols, by first occurrence, and what checks and vocabularies need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.finding import Finding
from regard.data.growing_array import GrowingArray, blocks
from regard.data.pairs import Pairs
from regard.data.sizes import Sizes
from regard.data.text.field import Field
from regard.data.text.symbol_table import SymbolTable

MIX = np.uint64(0x9E3779B97F4A7C15)
Observer = Callable[[Sequence[str], Sequence[str]], object]
"""Called with the normalised sources and targets of some pairs."""


@dataclass(frozen=True, slots=True)
class Affix:
    """The symbols that all texts of a side begin or end with, except for empty texts.

    Args:
        symbols: in the order of the texts.
        num_texts: the number of texts with symbols.
    """

    symbols: tuple[str, ...]
    num_texts: int


@dataclass(frozen=True, eq=False)
class SideSurvey:
    """The texts of one side. Arrays of many pairs are on disk (`GrowingArray`).

    Args:
        name: `source` or `target`.
        ids: the symbols of all texts, as indices of `counts`.
        lengths, starts: (pairs,) symbols of each text, and the index of its first one in `ids`.
        hashes: (pairs,) uint64, of the normalised texts; they differ between processes. Empty in a
            survey from the cache.
        counts: the number of occurrences of each symbol, in the order of their first occurrence.
        first: the index of the first pair with each symbol.
        prefix, suffix: the symbols that all texts begin and end with.
    """

    name: str
    field: Field
    ids: NDArray[np.integer[Any]]
    lengths: NDArray[np.integer[Any]]
    starts: NDArray[np.integer[Any]]
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


@dataclass(frozen=True)
class Survey:
    """The pairs of a split with their sides.

    Args:
        sizes: the lengths of both sides.
        by_hash: the findings that need hashes, for a survey without them.
    """

    name: str
    pairs: Pairs
    source: SideSurvey
    target: SideSurvey
    sizes: Sizes
    by_hash: tuple[Finding, ...] | None = None

    def of(self, source: Field, target: Field) -> Survey:
        """With other fields, of the same units and normalisation."""
        return replace(self, source=replace(self.source, field=source), target=replace(self.target, field=target))

    def reads_like(self, source: Field, target: Field) -> bool:
        """Whether fields have the units and the normalisation with which the pairs were read."""
        return all(
            side.field.units is field.units and side.field.normalisation == field.normalisation
            for side, field in ((self.source, source), (self.target, target))
        )

    def other(self, side: SideSurvey) -> SideSurvey:
        """The other one of the two sides."""
        return self.target if side is self.source else self.source

    def hashes(self) -> Iterator[tuple[int, NDArray[np.uint64], NDArray[np.uint64]]]:
        """The hashes of sources, and of sources with their targets, block by block, with the index of the first."""
        for start, (sources, targets) in blocks(self.source.hashes, self.target.hashes):
            yield start, sources, sources * MIX + targets


def survey(name: str, pairs: Pairs, source: Field, target: Field, *, observe: Observer | None = None) -> Survey:
    """Reads all pairs of a split once.

    Args:
        source, target: their units and normalisation are used; the vocabularies only count for `SideSurvey.unknown`.
        observe: is given the normalised texts.
    """
    sides = (_Collector("source", source), _Collector("target", target))
    for sources, targets in pairs.parts():
        texts = sides[0].add(sources), sides[1].add(targets)
        if observe is not None:
            observe(*texts)
    ours, theirs = (side.result() for side in sides)
    return Survey(name, pairs, ours, theirs, Sizes.of(ours.lengths, theirs.lengths))


class _Collector:
    def __init__(self, name: str, field: Field) -> None:
        self.name = name
        self.field = field
        self.table = SymbolTable(field.units)
        self.ids, self.lengths, self.starts = GrowingArray(), GrowingArray(), GrowingArray()
        self.hashes = GrowingArray(np.uint64)
        self.num_texts = 0
        self.prefix: NDArray[Any] | None = None
        self.suffix: NDArray[Any] | None = None  # reversed

    def add(self, texts: list[str]) -> list[str]:
        texts = self.field.normalisation.of_all(texts)
        ids, lengths = self.table.add(texts)
        ends = np.cumsum(lengths)
        self.starts.add(len(self.ids) + ends - lengths)
        self.ids.add(ids)
        self.lengths.add(lengths)
        self.hashes.add(np.fromiter(map(hash, texts), np.int64, len(texts)).view(np.uint64))
        if (filled := lengths > 0).any():
            self.num_texts += int(filled.sum())
            first, last, least = (ends - lengths)[filled], ends[filled] - 1, int(lengths[filled].min())
            self.prefix = _common(self.prefix, (ids[first + i] for i in range(least)))
            self.suffix = _common(self.suffix, (ids[last - i] for i in range(least)))
        return texts

    def result(self) -> SideSurvey:
        symbols = self.table.symbols

        def affix(ids: NDArray[Any] | None, step: int) -> Affix:
            return Affix(tuple(symbols[i] for i in ([] if ids is None else ids.tolist()[::step])), self.num_texts)

        arrays = (self.ids.array(), self.lengths.array(), self.starts.array(), self.hashes.array())
        counts, first = self.table.counts, self.table.first
        return SideSurvey(self.name, self.field, *arrays, counts, first, affix(self.prefix, 1), affix(self.suffix, -1))


def _common(prefix: NDArray[Any] | None, columns: Iterator[NDArray[Any]]) -> NDArray[Any]:
    """The symbols that a prefix (of earlier texts, if there are any) and columns of symbols of further texts share."""
    common = []
    for number, column in enumerate(columns):
        if (prefix is not None and number == len(prefix)) or (column != column[0]).any():
            break
        if prefix is not None and column[0] != prefix[number]:
            break
        common.append(column[0])
    return np.array(common, np.int64)
