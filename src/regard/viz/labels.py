"""Tokens as labels: invisible characters become visible, long labels are cut, dense labels are thinned out."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

END_SYMBOL = "</s>"
"""The label of the last row or column if there is no token for it; `end_symbol=False` leaves it out."""

_SIGNS = {" ": "␣", "\n": "⏎", "\t": "⇥"}
_NAMES = {
    "\u00a0": "NBSP", "\u00ad": "SHY", "\u034f": "CGJ", "\u061c": "ALM", "\u200b": "ZWSP", "\u200c": "ZWNJ",
    "\u200d": "ZWJ", "\u200e": "LRM", "\u200f": "RLM", "\u2060": "WJ", "\ufeff": "BOM",
}  # fmt: skip
"""Abbreviations of invisible characters; others are shown as code points."""
_JOINERS = "\u200c\u200d"
VIRAMA = 9
"""The combining class of the signs that remove the vowel of a consonant."""
_DRAWN = frozenset(map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)))
"""Format characters that are drawn, such as the Arabic number sign."""


def visible(token: str) -> str:
    """The token with spaces, line ends, control and format characters as signs, abbreviations or code points.

    Invisible characters that affect their neighbours are unchanged within a word: joiners between characters or after a
    virama, variation selectors and emoji tags.

    >>> visible("a b\\n"), visible("\\x00"), visible("\\u200b"), visible("")
    ('a␣b⏎', '‹U+0000›', '‹ZWSP›', '∅')
    >>> visible("\\u200d"), visible("\U0001f469\\u200d\U0001f467")
    ('‹ZWJ›', '\U0001f469\\u200d\U0001f467')
    """
    shown = "".join(_shown(token, index) for index in range(len(token))) or "∅"
    return "◌" + shown if unicodedata.category(shown[0]).startswith("M") else shown


def visible_words(text: str) -> str:
    """As `visible`, but spaces stay spaces."""
    return " ".join(visible(word) for word in text.split(" ") if word)


def _shown(token: str, index: int) -> str:
    character = token[index]
    if character in _SIGNS:
        return _SIGNS[character]
    if not _is_hidden(character) or _is_within(token, index):
        return character
    return f"‹{_NAMES.get(character) or f'U+{ord(character):04X}'}›"


def _is_hidden(character: str) -> bool:
    """Whether nothing is drawn for the character."""
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp") and character not in _DRAWN
    return hidden or _is_selector(character)


def _is_selector(character: str) -> bool:
    """Whether the character is a variation selector, the grapheme joiner, or a tag of an emoji flag."""
    code = ord(character)
    variants = code == 0x34F or 0x180B <= code <= 0x180F or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
    return variants or 0xE0020 <= code <= 0xE007F


def _is_within(token: str, index: int) -> bool:
    """Whether a hidden character affects its neighbours."""
    before = token[:index].rstrip(_JOINERS)[-1:]
    if not before or (_is_hidden(before) and not _is_selector(before)):
        return False
    if _is_selector(token[index]):
        return True
    after = token[index + 1 :].lstrip(_JOINERS)[:1]
    return token[index] in _JOINERS and (
        (bool(after) and not _is_hidden(after)) or unicodedata.combining(before) == VIRAMA
    )


def is_silent(character: str) -> bool:
    """Whether the character only affects its neighbours and needs no glyph."""
    return character in _JOINERS or _is_selector(character)


def clusters(text: str) -> list[str]:
    """The text divided into characters as a reader counts them: letters with marks, joined emoji, flags of two letters.

    Source: Unicode Standard Annex 29, its extended grapheme clusters, without the rules for Hangul letters.

    >>> [len(cluster) for cluster in clusters("e\\u0301a\U0001f469\\u200d\U0001f467\U0001f1eb\U0001f1f7")]
    [2, 1, 3, 2]
    """
    result: list[str] = []
    for character in text:
        last = result[-1] if result else ""
        flag = all(0x1F1E6 <= ord(letter) <= 0x1F1FF for letter in last + character) and len(last) == 1
        if last and (_extends(character) or last[-1] == "\u200d" or flag):
            result[-1] += character
        else:
            result.append(character)
    return result


def _extends(character: str) -> bool:
    """Whether the character belongs to the one before it: marks, joiners, selectors, skin colours."""
    marks = unicodedata.category(character).startswith("M") or is_silent(character)
    return marks or 0x1F3FB <= ord(character) <= 0x1F3FF


def shortened(label: str, width: int = 24, *, end: bool = False) -> str:
    """The label, cut to at most `width` characters as a reader counts them.

    Args:
        end: keeps the end of the label instead of its beginning.

    >>> shortened("incomprehensibilities", 8), shortened("incomprehensibilities", 8, end=True)
    ('incompr…', '…ilities')
    """
    if len(label) <= width:
        return label
    characters = clusters(label)
    if len(characters) <= width:
        return label
    return "…" + "".join(characters[1 - width :]) if end else "".join(characters[: width - 1]) + "…"


def columns(label: str) -> int:
    """The number of terminal columns of the label, an estimate of its width."""
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me") or is_silent(character)
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in label
    )


def stride(spacing: float, needed: float) -> int:
    """The least n of 1, 2, 5, 10, 20, … for which labels of every n-th cell are at least `needed` apart.

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
    """Visible labels of `size` cells; numbers from 0 if there are no tokens."""
    return [str(i) for i in range(size)] if tokens is None else [visible(token) for token in tokens]
