"""The nearest known spelling of a word that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, letter case aside; None when nothing is near.

    >>> nearest("LSTMs", ["lstm", "gru"])
    'lstm'
    """
    words = list(known)
    by_case = {candidate.lower(): candidate for candidate in reversed(words)}
    found = get_close_matches(word.lower(), by_case, n=1, cutoff=0.6)
    return by_case[found[0]] if found else None


def did_you_mean(*words: str) -> str:
    """The question that ends a message.

    >>> did_you_mean("size", "layers")
    "did you mean 'size' or 'layers'?"
    """
    return f"did you mean {' or '.join(repr(word) for word in words)}?"
