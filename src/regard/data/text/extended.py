"""A target's vocabulary extended by the symbols of a source, so that a pointer can copy them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.table_rows import TAB
from regard.data.text.columns import ColumnNormalisation, ColumnUnits
from regard.data.text.field import Field
from regard.data.text.normalisation import Normalisation
from regard.data.text.normaliser import Normaliser
from regard.data.text.units import SeparatorUnits, Units, WhitespaceUnits, WordUnits
from regard.data.text.vocabulary import BOS, EOS, PAD, UNKNOWN

WORDS = (WordUnits, WhitespaceUnits, SeparatorUnits)
"""Units whose symbols are words and comparable with each other; other units compare only with the same units."""
UNCOPYABLE = -1
"""The id of a source symbol that cannot be copied."""


@dataclass(frozen=True, slots=True)
class Extension:
    """A source for a pointer.

    Args:
        ids: (S,) int64, for each symbol of the source its id in the target's vocabulary of N symbols, N + x for the
            x-th symbol that the vocabulary lacks, or -1 for a symbol that cannot be copied.
        symbols: the X distinct symbols that the vocabulary lacks, in order, in the target's normalisation.
        texts: their texts in the source at the first occurrence.
    """

    ids: NDArray[np.int64]
    symbols: tuple[str, ...]
    texts: tuple[str, ...]


class ExtendedVocabulary:
    """The vocabulary of a target, extended for each source by the symbols of that source that it lacks.

    A source symbol equals a target symbol if its original text is the same under the target's normalisation, so that a
    source that is read in lower case can be copied in its original case. Symbols of columns with units that are not
    comparable with the target's, and symbols that the target's units would divide, cannot be copied.

    Args:
        source, target: the fields of both sides.

    >>> from regard.tasks.text_to_text.config import SideConfig
    >>> side = Field.build(SideConfig(units="word", case="lower"), ["call the office"])
    >>> vocabulary = ExtendedVocabulary(side, side)
    >>> extension = vocabulary.extend("Call Ulrike, the ULRIKE")
    >>> extension.ids, extension.symbols, extension.texts
    (array([4, 7, 8, 6, 7]), ('ulrike', ','), ('Ulrike', ','))
    >>> vocabulary.decode([4, 7], extension)
    'call Ulrike'
    """

    def __init__(self, source: Field, target: Field) -> None:
        self.source, self.target = source, target
        self.size = len(target.vocabulary)
        columns = source.units.columns if isinstance(source.units, ColumnUnits) else (source.units,)
        self._columns = [(units, _compare(units, target.units)) for units in columns]
        self._splits = isinstance(target.units, WORDS)
        self._is_alike = _each(source.normalisation) == _each(target.normalisation)

    def extend(self, text: str) -> Extension:
        """The symbols of a raw source as ids of outputs."""
        ids: list[int] = []
        extended: dict[str, str] = {}
        numbers: dict[str, int] = {}
        known = self.target.vocabulary.number
        for symbol, written in self._symbols(text):
            number = UNCOPYABLE if symbol is None else known(symbol)
            if symbol is not None and number == UNKNOWN:
                # a symbol that the target's units divide occurs in no target
                is_whole = not self._splits or self.target.units.split(symbol) == [symbol]
                if symbol not in numbers and is_whole:
                    numbers[symbol] = self.size + len(numbers)
                    extended[symbol] = written
                number = numbers.get(symbol, UNCOPYABLE)
            ids.append(number)
        return Extension(np.array(ids, np.int64), tuple(extended), tuple(extended.values()))

    def ids(self, tokens: Sequence[str], extension: Extension) -> NDArray[np.int64]:
        """Ids of a target's symbols, (len(tokens),); `<unk>` for symbols of neither the vocabulary nor the source."""
        ids = self.target.vocabulary.ids(tokens)
        if extension.symbols and (ids == UNKNOWN).any():
            numbers = {symbol: self.size + x for x, symbol in enumerate(extension.symbols)}
            for place in np.flatnonzero(ids == UNKNOWN).tolist():
                ids[place] = numbers.get(tokens[place], UNKNOWN)
        return ids

    def tokens(self, ids: Iterable[int], extension: Extension) -> list[str]:
        """The symbols of extended ids, as `Field.tokens`."""
        return self._named(ids, extension.symbols)

    def decode(self, ids: Iterable[int], extension: Extension) -> str:
        """The text of extended ids, with symbols outside the vocabulary written as in the source."""
        return self.target.units.join(self._named(ids, extension.texts))

    def _named(self, ids: Iterable[int], names: Sequence[str]) -> list[str]:
        vocabulary = self.target.vocabulary
        shown = (i for i in map(int, ids) if i not in (PAD, BOS, EOS))
        return [names[i - self.size] if i >= self.size else vocabulary.tokens((i,))[0] for i in shown]

    def _symbols(self, text: str) -> Iterator[tuple[str | None, str]]:
        """Each symbol of a source in the target's normalisation (None if it cannot be copied) and as written."""
        texts = text.split(TAB) if len(self._columns) > 1 else [text]
        normalise, targets = _each(self.source.normalisation), _each(self.target.normalisation)
        for (units, is_comparable), column in zip(self._columns, texts, strict=True):
            symbols = units.split(normalise(column))
            if not is_comparable:
                yield from ((None, symbol) for symbol in symbols)
                continue
            written = units.split(column.strip())
            if len(written) != len(symbols):
                written = symbols
            for symbol, original in zip(symbols, written, strict=True):
                if original == symbol and self._is_alike:
                    yield symbol, symbol
                elif original == symbol or (normalise(original) or original) == symbol:
                    yield symbol if self._is_alike else (targets(original) or original), original
                else:
                    yield symbol if self._is_alike else (targets(symbol) or symbol), symbol


def _each(normalisation: Normalisation | ColumnNormalisation | Normaliser) -> Normalisation | Normaliser:
    """The normalisation of one column."""
    return normalisation.each if isinstance(normalisation, ColumnNormalisation) else normalisation


def _compare(source: Units, target: Units) -> bool:
    """Whether symbols of two units may be equal."""
    return type(source) is type(target) or (isinstance(source, WORDS) and isinstance(target, WORDS))


def comparable(source: str, target: str) -> bool:
    """Whether symbols of two units may be equal, by the units' names in configurations."""
    return source == target or {source, target} <= {"word", "whitespace", "separator"}
