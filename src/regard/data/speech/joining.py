"""Long sentences joined from short ones, to test attention on lengths beyond the training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from regard.errors import DataError

NUM_JOINED = 5
"""The default number of sentences in a long one."""
ENDS = ".!?…"
T = TypeVar("T")


def join_texts(texts: Sequence[str], count: int = NUM_JOINED, *, separator: str = ", ", end: str = ".") -> list[str]:
    """Every `count` successive sentences joined to one; a remainder is left out.

    Args:
        count: sentences in each joined one.
        separator: replaces the punctuation between two sentences.
        end: replaces the punctuation of the last.

    Raises:
        DataError: for fewer texts than `count`, or a count below 1.

    >>> join_texts(["One dog.", "Two dogs!", "Three."], 2)
    ['One dog, Two dogs.']
    """
    return [separator.join(text.rstrip().rstrip(ENDS) for text in group) + end for group in _groups(texts, count)]


def join_units(sentences: Sequence[Sequence[str]], count: int = NUM_JOINED, *, pause: str = "pau") -> list[list[str]]:
    """Every `count` successive sequences of phones joined to one, with one pause in between; a remainder is left out.

    Args:
        sentences: phones of each sentence.
        count: sequences in each joined one.
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
        raise DataError(
            f"Joining {count} sentences needs a count of at least 1 and as many sentences; got {len(items)}."
        )
    return [items[start : start + count] for start in range(0, len(items) - count + 1, count)]
