"""Symbols and their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data import symbols_file as document
from regard.errors import RegardError

PAD, BOS, EOS, UNKNOWN = range(4)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")


class Vocabulary:
    """Symbols and their ids: 0 `<pad>`, 1 `<s>`, 2 `</s>`, 3 `<unk>`, then the symbols in order.

    The four specials are ids without a text: a symbol `</s>` of a text is an ordinary symbol.

    Args:
        symbols: distinct texts, without the specials.

    Raises:
        RegardError: if a symbol occurs twice.

    >>> vocabulary = Vocabulary.build([["b", "a", "b"], ["</s>"]])
    >>> vocabulary.symbols
    ('b', '</s>', 'a')
    >>> vocabulary.ids(["a", "</s>", "?"])
    array([6, 5, 3])
    """

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(symbols)
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols, start=len(SPECIALS))}
        if len(self._ids) < len(self.symbols):
            repeated = Counter(self.symbols).most_common(1)[0][0]
            raise RegardError(f"The symbols of a vocabulary must be distinct; {repeated!r} occurs twice.")

    @classmethod
    def build(
        cls, tokens: Iterable[Sequence[str]], *, min_count: int = 1, max_symbols: int | None = None
    ) -> Vocabulary:
        """The vocabulary of tokenised texts by descending frequency, with equal counts in order of code points.

        Args:
            min_count: symbols that occur less often are left out.
            max_symbols: the most symbols; all if None.
        """
        counts = Counter(chain.from_iterable(tokens))
        return cls.of_counts(counts, min_count=min_count, max_symbols=max_symbols)

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], *, min_count: int = 1, max_symbols: int | None = None) -> Vocabulary:
        """As `build`, from the counts of symbols."""
        frequent = (symbol for symbol, count in counts.items() if count >= min_count)
        return cls(sorted(frequent, key=lambda symbol: (-counts[symbol], symbol))[:max_symbols])

    def extended(self, other: Vocabulary) -> Vocabulary:
        """This vocabulary, followed by the symbols of another one that it lacks.

        >>> Vocabulary(["b", "a"]).extended(Vocabulary(["c", "b"])).symbols
        ('b', 'a', 'c')
        """
        return Vocabulary(dict.fromkeys((*self.symbols, *other.symbols)))

    def __len__(self) -> int:
        """The number of ids, specials included."""
        return len(SPECIALS) + len(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.symbols == other.symbols

    def __hash__(self) -> int:
        return hash(self.symbols)

    def ids(self, tokens: Sequence[str]) -> NDArray[np.int64]:
        """Ids of symbols, (len(tokens),); `<unk>` for unknown symbols."""
        return np.fromiter((self._ids.get(token, UNKNOWN) for token in tokens), dtype=np.int64, count=len(tokens))

    def number(self, symbol: str) -> int:
        """The id of a symbol, or that of `<unk>`."""
        return self._ids.get(symbol, UNKNOWN)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Symbols of ids, with the specials by name."""
        return [SPECIALS[i] if i < len(SPECIALS) else self.symbols[i - len(SPECIALS)] for i in map(int, ids)]

    def unknown(self, tokens: Iterable[str]) -> list[str]:
        """The symbols that are not in the vocabulary, in order, with repetitions."""
        return [token for token in tokens if token not in self._ids]

    def save(self, path: Path | str) -> None:
        """Writes a JSON document with one symbol per line."""
        document.write(Path(path), {}, self.symbols)

    @classmethod
    def load(cls, path: Path | str) -> Vocabulary:
        """Reads a file of `save`."""
        return cls(document.read(Path(path))[1])
