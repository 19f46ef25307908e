"""Suggestions for misspelled words."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate most similar to `word`, ignoring letter case; None if none is similar.

    >>> nearest("LSTMs", ["lstm", "gru"])
    'lstm'
    """
    by_lower = {candidate.lower(): candidate for candidate in reversed(list(candidates))}
    matches = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def suggestion(word: str, candidates: Iterable[str], otherwise: str | None = None) -> str:
    """The advice for a word that is not among the candidates: a similar one, or a list of them.

    Args:
        otherwise: the text instead of the list.

    >>> suggestion("LSTMs", ["lstm", "gru"]), suggestion("cnn", ["lstm", "gru"])
    ("did you mean 'lstm'?", 'there are lstm, gru')
    """
    candidates = list(candidates)
    similar = nearest(word, candidates)
    return did_you_mean(similar) if similar else otherwise or f"there are {', '.join(candidates)}"


def did_you_mean(*words: str) -> str:
    """The question that ends a message.

    >>> did_you_mean("size", "layers")
    "did you mean 'size' or 'layers'?"
    """
    return f"did you mean {' or '.join(repr(word) for word in words)}?"
