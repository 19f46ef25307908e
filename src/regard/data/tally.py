"""Summaries of warnings about many inputs: the symbols, their counts and the first places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from regard.data.finding import NUM_EXAMPLES
from regard.errors import counted, first_of

MOST_NAMES = 20
"""The most symbols listed in a line."""


class Caution(str):
    """A warning about one input that can be summarised with those about other inputs.

    Args:
        text: the warning, as it is printed for a single input.
        subject: the part that such warnings share.
        names: the symbols concerned, with repetitions.

    >>> Caution("unknown: 'x'", "unknown", ["x", "x"])
    "unknown: 'x'"
    """

    subject: str
    names: tuple[str, ...]

    def __new__(cls, text: str, subject: str, names: Iterable[str] = ()) -> Self:
        caution = super().__new__(cls, text)
        caution.subject, caution.names = subject, tuple(names)
        return caution

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, tuple[str, ...]]]:
        return type(self), (str(self), self.subject, self.names)


def unknown_symbols(names: Iterable[str], subject: str, *, most: int = MOST_NAMES) -> Caution:
    """A warning that lists distinct symbols, at most `most`.

    >>> unknown_symbols("xyx", "read as <unk>")
    "read as <unk>: 'x', 'y'"
    """
    names = tuple(names)
    distinct = [*dict.fromkeys(names)]
    return Caution(f"{subject}: {first_of(list(map(repr, distinct)), most)}", subject, names)


def longer_than_training(count: int, most: int, names: str) -> Caution:
    """A warning about an input of `count` symbols, where training had none of more than `most`.

    Args:
        names: what the symbols are, in the plural.

    >>> longer_than_training(60, 20, "letters")
    '60 letters, but training had at most 20'
    """
    text = f"{count} {names}, but training had at most {most}"
    return Caution(text, f"more {names} than the {most} that training had at most")


@dataclass(slots=True)
class SymbolTally:
    """Counts of symbols and of the items that have them.

    >>> tally = SymbolTally()
    >>> tally.add("t.tsv:1", ["é", "é", "ß"])
    >>> tally.add("t.tsv:2", [])
    >>> tally.lines("item|items has|have symbols that the model does not know")
    ["1 item has symbols that the model does not know: 'é' (2), 'ß' (1) (t.tsv:1)"]
    """

    names: Counter[str] = field(default_factory=Counter)
    places: list[str] = field(default_factory=list)
    num_items: int = 0

    def add(self, place: str, names: Iterable[str]) -> None:
        """Counts symbols, and their item if it has any."""
        before = self.names.total()
        self.names.update(names)
        if self.names.total() > before:
            self.count(place)

    def count(self, place: str) -> None:
        """Counts an item without symbols."""
        self.num_items += 1
        if len(self.places) < NUM_EXAMPLES:
            self.places.append(place)

    def about(self, text: str) -> str:
        """The text with the most frequent symbols and the first places."""
        shown = [f"{name!r} ({count:,})" for name, count in self.names.most_common(MOST_NAMES)]
        more = f" and {len(self.names) - MOST_NAMES:,} others" * (len(self.names) > MOST_NAMES)
        symbols = f": {', '.join(shown)}{more}" * bool(shown)
        places = ", ".join(self.places) + ", …" * (self.num_items > len(self.places))
        return f"{text}{symbols} ({places})"

    def lines(self, text: str) -> list[str]:
        """A line with the number of items, the text, symbols and places, if any item was counted."""
        return [self.about(counted(self.num_items, text))] if self.num_items else []


def summary(warnings: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Lines for the warnings of many items, one for each kind.

    Args:
        warnings: place and warnings of each item.

    >>> unknown = Caution("no 'x'", "no", ["x"])
    >>> summary([("a:1", ["the input is empty"]), ("a:2", [unknown]), ("a:3", ["the input is empty"])])
    ['2 items: the input is empty (a:1, a:3)', "a:2: no 'x'"]
    """
    tallies: dict[str, SymbolTally] = {}
    first: dict[str, str] = {}
    for place, texts in warnings:
        for text in texts:
            subject, names = (text.subject, text.names) if isinstance(text, Caution) else (text, ())
            tally = tallies.setdefault(subject, SymbolTally())
            tally.names.update(names)
            tally.count(place)
            first.setdefault(subject, f"{place}: {text}")
    return [
        tally.about(f"{tally.num_items:,} items: {subject}") if tally.num_items > 1 else first[subject]
        for subject, tally in tallies.items()
    ]
