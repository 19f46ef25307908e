"""Tokens as labels: what cannot be seen is made visible, what is too long is cut, what is too dense is thinned."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

END_SYMBOL = "</s>"
"""The label of a last row or column that the tokens do not name, and what `end_symbol=False` leaves out."""

_SIGNS = {" ": "␣", "\n": "⏎", "\t": "⇥"}


def visible(token: str) -> str:
    """The token with spaces, line ends, control and format characters shown by a sign or by their code point.

    >>> visible("a b\\n"), visible("\\x00"), visible("\\u200b"), visible("")
    ('a␣b⏎', '‹U+0000›', '‹U+200B›', '∅')
    """
    shown = "".join(_shown(character) for character in token) or "∅"
    return "◌" + shown if unicodedata.combining(shown[0]) else shown


def visible_words(text: str) -> str:
    """Running text: as `visible`, but spaces stay spaces."""
    return " ".join(visible(word) for word in text.split(" ") if word)


def _shown(character: str) -> str:
    if character in _SIGNS:
        return _SIGNS[character]
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp"):
        return f"‹U+{ord(character):04X}›"
    return character


def shortened(label: str, width: int = 24) -> str:
    """The label, cut to at most `width` characters.

    >>> shortened("incomprehensibilities", 8)
    'incompr…'
    """
    return label if len(label) <= width else label[: width - 1] + "…"


def columns(label: str) -> int:
    """How many columns of a terminal the label takes: an estimate of its width."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in label
    )


def stride(spacing: float, needed: float) -> int:
    """Label every how manieth cell, as 1, 2, 5, 10, 20, ..., so that labels stand at least `needed` apart.

    >>> stride(0.3, 0.15), stride(0.1, 0.15), stride(0.01, 0.15)
    (1, 2, 20)
    """
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * spacing >= needed:
                return factor * power
        power *= 10


def numbered(tokens: Sequence[str] | None, size: int) -> list[str]:
    """Visible labels of `size` cells; their numbers from 0 where there are no tokens."""
    return [str(i) for i in range(size)] if tokens is None else [visible(token) for token in tokens]
