"""Texts of several columns, such as a lemma and its tags, joined by tabs; each column has its own units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.table_rows import TAB
from regard.data.text.normalisation import Normalisation
from regard.data.text.units import Units
from regard.errors import DataError

MARK = "+"
ESCAPE = "\\"


@dataclass(frozen=True, slots=True)
class ColumnNormalisation:
    """Normalises each column separately, so that an empty column keeps its place.

    >>> ColumnNormalisation(Normalisation(case="upper"))("gehen \\tv;pst")
    'GEHEN\\tV;PST'
    """

    each: Normalisation

    def __call__(self, text: str) -> str:
        return TAB.join(map(self.each, text.split(TAB)))


@dataclass(frozen=True, slots=True)
class ColumnUnits:
    """Splits each column into the symbols of its units, one column after the other.

    Symbols of the second column begin with `+`, those of the third with `++`, and so on, as tags do in finite-state
    morphology, so no two columns share a symbol. A symbol that itself begins with a plus sign or a backslash is
    escaped by a backslash.

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
        """All possible symbols, or None if the symbols of some column follow from the texts."""
        return None if any(units.inventory is None for units in self.columns) else self.certain

    @property
    def certain(self) -> tuple[str, ...]:
        """The symbols of the columns that have an inventory: the vocabulary has them whether or not they occur."""
        return tuple(
            _marked(symbol, number) for number, units in enumerate(self.columns) for symbol in units.inventory or ()
        )

    def refusal(self, text: str) -> str:
        """Why a text cannot be split (a wrong number of columns); empty if it can."""
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
        number, symbol = _unmarked(token)
        return self.columns[min(number, len(self.columns) - 1)], symbol

    def join(self, tokens: Sequence[str]) -> str:
        """The text of symbols; each goes to the column that its marks name."""
        columns: list[list[str]] = [[] for _ in self.columns]
        for token in tokens:
            number, symbol = _unmarked(token)
            columns[min(number, len(columns) - 1)].append(symbol)
        return TAB.join(units.join(symbols) for units, symbols in zip(self.columns, columns))

    def words(self, tokens: Sequence[str], text: str | None = None) -> list[int]:
        """As `Units.words`, one column after the other: no word is part of two columns."""
        columns: list[list[str]] = [[] for _ in self.columns]
        places = []
        for token in tokens:
            number, symbol = _unmarked(token)
            number = min(number, len(columns) - 1)
            places.append((number, len(columns[number])))
            columns[number].append(symbol)
        texts = [None] * len(columns) if text is None else text.split(TAB)
        numbers, count = [], 0
        for units, symbols, each in zip(self.columns, columns, texts):
            words = units.words(symbols, each)
            numbers.append([word + count if word >= 0 else -1 for word in words])
            count += max(words, default=-1) + 1
        return [numbers[column][place] for column, place in places]


def _marked(symbol: str, number: int) -> str:
    escaped = symbol.startswith((MARK, ESCAPE)) and (number > 0 or len(symbol) > 1)
    return MARK * number + ESCAPE * escaped + symbol


def _unmarked(token: str) -> tuple[int, str]:
    """The column of a symbol, and the symbol without its marks."""
    symbol = token.lstrip(MARK)
    if not symbol:  # a plus sign of the first column
        return 0, token
    number = len(token) - len(symbol)
    return number, symbol[1:] if symbol.startswith(ESCAPE) and len(symbol) > 1 else symbol
