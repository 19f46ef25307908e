"""Ids of symbols in the order of their first occurrence, with their counts, while texts are read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.text.units import CharacterUnits, Units

CODE_POINTS = 0x110000


class SymbolTable:
    """The symbols of texts that are read in parts.

    >>> table = SymbolTable(CharacterUnits())
    >>> table.add(["ab", "", "ba"])[0].tolist()
    [0, 1, 1, 0]
    >>> table.counts
    {'a': 2, 'b': 2}
    """

    def __init__(self, units: Units) -> None:
        self.units = units
        self.num_texts = 0
        self._ids = _Ids()
        self._counts = np.zeros(0, np.int64)
        self._first: list[int] = []
        # of characters, the id of each code point
        self._of_code = np.full(CODE_POINTS, -1, np.int32) if type(units) is CharacterUnits else None

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols in the order of their ids."""
        return tuple(self._ids)

    @property
    def counts(self) -> dict[str, int]:
        """The number of occurrences of each symbol."""
        return dict(zip(self._ids, self._counts.tolist(), strict=True))

    @property
    def first(self) -> dict[str, int]:
        """The index of the first text with each symbol."""
        return dict(zip(self._ids, self._first, strict=True))

    def add(self, texts: Sequence[str]) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]:
        """The ids of all symbols of normalised texts, one text after the other, and the number of symbols of each."""
        if self._of_code is not None:
            lengths = np.fromiter(map(len, texts), np.int64, len(texts))
            ids = self._of_characters("".join(texts))
        else:
            split = [self.units.split(text) for text in texts]
            lengths = np.fromiter(map(len, split), np.int64, len(texts))
            ids = np.fromiter(map(self._ids.__getitem__, chain.from_iterable(split)), np.int64, int(lengths.sum()))
        if len(new := range(len(self._counts), len(self._ids))):
            self._counts = np.append(self._counts, np.zeros(len(new), np.int64))
            places = np.flatnonzero(ids >= new.start)
            _, earliest = np.unique(ids[places], return_index=True)
            texts_of = np.searchsorted(np.cumsum(lengths), places[earliest], "right")
            self._first += (self.num_texts + texts_of).tolist()
        self._counts += np.bincount(ids, minlength=len(self._counts))
        self.num_texts += len(texts)
        return ids, lengths

    def _of_characters(self, text: str) -> NDArray[np.int32]:
        assert self._of_code is not None
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        ids = self._of_code[codes]
        if (unseen := codes[ids < 0]).size:
            distinct, first = np.unique(unseen, return_index=True)
            for code in distinct[np.argsort(first)].tolist():
                self._of_code[code] = self._ids[chr(code)]
            ids = self._of_code[codes]
        return ids


class _Ids(dict[str, int]):
    """Gives each new symbol the next id."""

    def __missing__(self, symbol: str) -> int:
        number = self[symbol] = len(self)
        return number
