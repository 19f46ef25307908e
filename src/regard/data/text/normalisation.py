"""Normalisation of letter case and Unicode form."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal

LetterCase = Literal["keep", "upper", "lower"]
UnicodeForm = Literal["keep", "NFC", "NFD", "NFKC", "NFKD"]
MAX_PASSES = 4


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Converts a text to a Unicode form and letter case, and strips white space from its ends.

    Normalising is idempotent: as a change of case can undo the form and the form can undo the case (NFKC of a unit sign
    has small letters), both are repeated until the text no longer changes.

    >>> Normalisation(case="upper")(" garçon ")
    'GARÇON'
    """

    case: LetterCase = "keep"
    unicode: UnicodeForm = "NFC"

    def __call__(self, text: str) -> str:
        for _ in range(MAX_PASSES):
            changed = self._converted(text).strip()
            if changed == text:
                break
            text = changed
        return text

    def of_all(self, texts: list[str]) -> list[str]:
        """The normalised texts, joined for the conversions, which treat a line end as the end of a text.

        >>> Normalisation(case="upper").of_all([" a", "b "])
        ['A', 'B']
        """
        joined = "\n".join(texts)
        if joined.count("\n") != len(texts) - 1:
            return [self(text) for text in texts]
        for _ in range(MAX_PASSES):
            changed = self._converted(joined)
            if changed.count("\n") != len(texts) - 1:
                return [self(text) for text in texts]
            texts = list(map(str.strip, changed.split("\n")))
            changed = "\n".join(texts)
            if changed == joined or changed.isascii():  # a second conversion leaves ASCII as it is
                break
            joined = changed
        return texts

    def _converted(self, text: str) -> str:
        if self.unicode != "keep":
            text = unicodedata.normalize(self.unicode, text)
        if self.case == "upper":
            text = text.upper()
        elif self.case == "lower":
            text = text.lower()
        return text
