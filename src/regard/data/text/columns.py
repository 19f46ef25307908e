"""Texts of several columns joined by tabs, such as a lemma and its tags, each with its own units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from regard.data.table_rows import TAB
from regard.data.text.normalisation import Normalisation
from regard.data.text.units import Units
from regard.errors import DataError

MARK = "+"
ESCAPE = "\\"


@dataclass(frozen=True, slots=True)
class ColumnNormalisation:
    """Normalises each column separately, which preserves empty columns.

    >>> ColumnNormalisation(Normalisation(case="upper"))("gehen \\tv;pst")
    'GEHEN\\tV;PST'
    """

    each: Normalisation

    def __call__(self, text: str) -> str:
        return TAB.join(map(self.each, text.split(TAB)))

    def of_all(self, texts: list[str]) -> list[str]:
        """The normalised texts."""
        rows = [text.split(TAB) for text in texts]
        columns = iter(self.each.of_all([column for row in rows for column in row]))
        return [TAB.join(islice(columns, len(row))) for row in rows]


@dataclass(frozen=True, slots=True)
class ColumnUnits:
    """Splits each column into the symbols of its units, one column after the other.

    Symbols of the second column begin with `+`, those of the third with `++`, and so on, as tags in finite-state
    morphology, so that columns share no symbols. Symbols that begin with a plus sign or a backslash are escaped by a
    backslash.

    >>> from regard.data.text.units import CharacterUnits, SeparatorUnits
    >>> units = ColumnUnits((CharacterUnits(), SeparatorUnits(";")))
    >>> units.split("go\\tV;PST")
    ['g', 'o', '+V', '+PST']
    >>> units.join(['g', 'o', '+V', '+PST'])
    'go\\tV;PST'
    """

    columns: tuple[Units, ...]

    @property
    def inventory(self) -> tuple[str, ...] | None:
        """All possible symbols, or None if those of some column depend on the texts."""
        return None if any(units.inventory is None for units in self.columns) else self.certain

    @property
    def certain(self) -> tuple[str, ...]:
        """The symbols of columns with an inventory, which are in the vocabulary even if they do not occur."""
        return tuple(
            _marked(symbol, number) for number, units in enumerate(self.columns) for symbol in units.inventory or ()
        )

    def refusal(self, text: str) -> str:
        """The reason why a text cannot be split (a wrong number of columns); empty if it can."""
        count = text.count(TAB) + 1
        if count == len(self.columns):
            return ""
        return f"expected {len(self.columns)} columns with tabs between them, as in training; got {count}"

    def split(self, text: str) -> list[str]:
        """The symbols of a text.

        Raises:
            DataError: for a wrong number of columns.
        """
        if reason := self.refusal(text):
            raise DataError(f"{text!r}: {reason}.")
        return [
            _marked(symbol, number)
            for number, (units, column) in enumerate(zip(self.columns, text.split(TAB)))
            for symbol in units.split(column)
        ]

    def origin(self, token: str) -> tuple[Units, str]:
        """The units of a symbol's column, and the symbol without its marks."""
        number, symbol = self._unmarked(token)
        return self.columns[number], symbol

    def join(self, tokens: Sequence[str]) -> str:
        """The text of symbols, each in the column of its marks."""
        columns, _ = self._by_column(tokens)
        return TAB.join(units.join(symbols) for units, symbols in zip(self.columns, columns))

    def words(self, tokens: Sequence[str], text: str | None = None) -> list[int]:
        """As `Units.words`, one column after the other: no word is part of two columns."""
        columns, places = self._by_column(tokens)
        texts = [None] * len(columns) if text is None else text.split(TAB)
        numbers, count = [], 0
        for units, symbols, each in zip(self.columns, columns, texts):
            words = units.words(symbols, each)
            numbers.append([word + count if word >= 0 else -1 for word in words])
            count += max(words, default=-1) + 1
        return [numbers[column][place] for column, place in places]

    def _by_column(self, tokens: Sequence[str]) -> tuple[list[list[str]], list[tuple[int, int]]]:
        """The unmarked symbols of each column, and the column and position of each symbol."""
        columns: list[list[str]] = [[] for _ in self.columns]
        places = []
        for token in tokens:
            number, symbol = self._unmarked(token)
            places.append((number, len(columns[number])))
            columns[number].append(symbol)
        return columns, places

    def _unmarked(self, token: str) -> tuple[int, str]:
        """The column of a symbol, at most the last, and the symbol without its marks."""
        symbol = token.lstrip(MARK)
        if not symbol:  # a plus sign of the first column
            return 0, token
        number = min(len(token) - len(symbol), len(self.columns) - 1)
        return number, symbol[1:] if symbol.startswith(ESCAPE) and len(symbol) > 1 else symbol


def _marked(symbol: str, number: int) -> str:
    escaped = symbol.startswith((MARK, ESCAPE)) and (number > 0 or len(symbol) > 1)
    return MARK * number + ESCAPE * escaped + symbol
