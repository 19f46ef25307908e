"""Sentences joined to long ones, on which attention that was trained on short ones has to prove itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from regard.errors import DataError

NUM_JOINED = 5
"""Sentences of a long one."""
ENDS = ".!?…"
T = TypeVar("T")


def join_texts(texts: Sequence[str], count: int = NUM_JOINED, *, separator: str = ", ", end: str = ".") -> list[str]:
    """Every `count` texts as one: their marks of the end become separators.

    Texts that are left over at the end are left out.

    Args:
        texts: sentences; the joined ones are neighbours.
        count: how many make one.
        separator: what stands between them.
        end: what stands at the end.

    Raises:
        DataError: for fewer texts than `count`, or a count below 1.

    >>> join_texts(["One dog.", "Two dogs!", "Three."], 2)
    ['One dog, Two dogs.']
    """
    return [separator.join(text.rstrip().rstrip(ENDS) for text in group) + end for group in _groups(texts, count)]


def join_units(sentences: Sequence[Sequence[str]], count: int = NUM_JOINED, *, pause: str = "pau") -> list[list[str]]:
    """Every `count` sequences of phones as one: what is paused at the end of one and the beginning of the next is one
    pause. Sequences that are left over at the end are left out.

    Args:
        sentences: phones of each sentence.
        count: how many make one.
        pause: the phone of silence.

    Raises:
        DataError: for fewer sentences than `count`, or a count below 1.

    >>> join_units([["pau", "a", "pau"], ["pau", "b"]], 2)
    [['pau', 'a', 'pau', 'b']]
    """
    joined = []
    for group in _groups(sentences, count):
        units = list(group[0])
        for sentence in group[1:]:
            if units[-1:] != [pause]:
                units.append(pause)
            units += sentence[1:] if list(sentence[:1]) == [pause] else sentence
        joined.append(units)
    return joined


def _groups(items: Sequence[T], count: int) -> list[Sequence[T]]:
    if not 1 <= count <= len(items):
        raise DataError(f"Long sentences are {count} joined; there are {len(items)}.")
    return [items[start : start + count] for start in range(0, len(items) - count + 1, count)]
