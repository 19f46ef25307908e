"""Units of text: characters, letters, words, bytes, or texts between separators."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Protocol

QUOTES = frozenset("\"'„‚")
STANDING = frozenset("@#&*/\\")
OPENING = frozenset("¿¡")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
BYTE_VALUES = {symbol: byte for byte, symbol in enumerate(BYTES)}


class Units(Protocol):
    """Splits texts into symbols, and joins symbols to texts."""

    @property
    def inventory(self) -> tuple[str, ...] | None:
        """All possible symbols, or None if they depend on the texts."""

    def split(self, text: str) -> list[str]:
        """The symbols of a text."""

    def join(self, tokens: Sequence[str]) -> str:
        """The text of symbols."""

    def words(self, tokens: Sequence[str], text: str | None = None) -> list[int]:
        """The word of each symbol, from 0; -1 for symbols outside words, such as blanks.

        Args:
            text: the text that was split into the symbols; None for the output of a model.
        """


class CharacterUnits:
    """Unicode code points; an accent that the Unicode form keeps separate is a symbol of its own.

    >>> CharacterUnits().split("so be")
    ['s', 'o', ' ', 'b', 'e']
    """

    inventory: tuple[str, ...] | None = None

    def split(self, text: str) -> list[str]:
        return list(text)

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)

    def words(self, tokens: Sequence[str], text: str | None = None) -> list[int]:
        return runs(token.isspace() for token in tokens)


class LetterUnits(CharacterUnits):
    """Letters and marks of characters (canonical decomposition), such as the two or three letters of a Hangul syllable.

    Joined they are characters again (canonical composition), so texts are in NFC or NFKC.

    >>> LetterUnits().split("né한")
    ['n', 'e', '\u0301', 'ᄒ', 'ᅡ', 'ᆫ']
    >>> LetterUnits().join(['n', 'e', '\u0301', 'ᄒ', 'ᅡ', 'ᆫ'])
    'né한'
    """

    def split(self, text: str) -> list[str]:
        return list(unicodedata.normalize("NFD", text))

    def join(self, tokens: Sequence[str]) -> str:
        return unicodedata.normalize("NFC", "".join(tokens))


class WhitespaceUnits:
    """Texts between white space, joined by single spaces.

    >>> WhitespaceUnits().split("AH T  EH .")
    ['AH', 'T', 'EH', '.']
    """

    inventory: tuple[str, ...] | None = None

    def split(self, text: str) -> list[str]:
        return text.split()

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def words(self, tokens: Sequence[str], text: str | None = None) -> list[int]:
        return list(range(len(tokens)))


class SeparatorUnits:
    """Texts between separators, without surrounding white space; empty texts are left out.

    Args:
        separator: a text, for example the `;` between morphological tags.

    >>> SeparatorUnits(";").split("V; PST;3;SG")
    ['V', 'PST', '3', 'SG']
    """

    inventory: tuple[str, ...] | None = None

    def __init__(self, separator: str) -> None:
        self.separator = separator

    def split(self, text: str) -> list[str]:
        return [part for part in map(str.strip, text.split(self.separator)) if part]

    def join(self, tokens: Sequence[str]) -> str:
        return self.separator.join(tokens)

    def words(self, tokens: Sequence[str], text: str | None = None) -> list[int]:
        return list(range(len(tokens)))


class WordUnits:
    """Words, and each punctuation mark (Unicode categories P) around them; marks inside a word stay part of it.

    Joining places spaces as in European scripts and treats quotation marks as opening and closing in turn, so spaces
    may differ from the original text. For phones written with punctuation (X-SAMPA), use `whitespace`.

    >>> WordUnits().split("(Don't say 3.14, say “T-shirt”!)")
    ['(', "Don't", 'say', '3.14', ',', 'say', '“', 'T-shirt', '”', '!', ')']
    >>> WordUnits().join(WordUnits().split("(Don't say 3.14, say “T-shirt”!)"))
    "(Don't say 3.14, say “T-shirt”!)"
    """

    inventory: tuple[str, ...] | None = None

    def split(self, text: str) -> list[str]:
        tokens: list[str] = []
        for chunk in text.split():
            start, end = 0, len(chunk)
            while start < end and _is_mark(chunk[start]):
                start += 1
            while end > start and _is_mark(chunk[end - 1]):
                end -= 1
            tokens += chunk[:start]
            if start < end:
                tokens.append(chunk[start:end])
            tokens += chunk[end:]
        return tokens

    def join(self, tokens: Sequence[str]) -> str:
        parts: list[str] = []
        is_glued, in_quotes = True, False
        for token in tokens:
            before = after = False
            if len(token) == 1 and _is_mark(token):
                before, after = _sides(token, in_quotes)
                in_quotes ^= _is_quote(token)
            parts += [token] if is_glued or before else [" ", token]
            is_glued = after
        return "".join(parts)

    def words(self, tokens: Sequence[str], text: str | None = None) -> list[int]:
        """As `Units.words`: runs of characters between blanks of the text, or without it the symbols themselves.

        >>> WordUnits().words(["See", "(", "it", ")", "."], "See (it).")
        [0, 1, 1, 1, 1]
        """
        if text is None:
            return list(range(len(tokens)))
        return [number for number, chunk in enumerate(text.split()) for _ in self.split(chunk)]


class ByteUnits:
    """The bytes of the text in UTF-8; the vocabulary always has all 256. Joining replaces invalid bytes by `�`.

    >>> ByteUnits().split("é")
    ['<0xC3>', '<0xA9>']
    """

    inventory: tuple[str, ...] | None = BYTES

    def split(self, text: str) -> list[str]:
        return [BYTES[byte] for byte in text.encode("utf-8", "surrogatepass")]

    def join(self, tokens: Sequence[str]) -> str:
        return bytes(BYTE_VALUES.get(token, 0xFF) for token in tokens).decode("utf-8", "replace")

    def words(self, tokens: Sequence[str], text: str | None = None) -> list[int]:
        characters = bytes(BYTE_VALUES.get(token, 0xFF) for token in tokens).decode("utf-8", "surrogateescape")
        sizes = (len(character.encode("utf-8", "surrogateescape")) for character in characters)
        return runs(blank for character, size in zip(characters, sizes) for blank in [character.isspace()] * size)


def runs(blanks: Iterable[bool]) -> list[int]:
    """The run of each position, from 0; -1 at the blanks between runs.

    >>> runs([False, False, True, False])
    [0, 0, -1, 1]
    """
    numbers, count, is_inside = [], 0, False
    for is_blank in blanks:
        count += not is_blank and not is_inside
        is_inside = not is_blank
        numbers.append(count - 1 if is_inside else -1)
    return numbers


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "P"


def _is_quote(mark: str) -> bool:
    return mark in QUOTES or unicodedata.category(mark) in ("Pi", "Pf")


def _sides(mark: str, in_quotes: bool) -> tuple[bool, bool]:
    """Whether a mark is written without a space before it, and without a space after it."""
    category = unicodedata.category(mark)
    if _is_quote(mark):
        return in_quotes, not in_quotes
    if category == "Ps" or mark in OPENING:
        return False, True
    return category == "Pe" or (category == "Po" and mark not in STANDING), False
