"""Splitting texts into sentences by rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from regard.errors import RegardError

Newlines = Literal["paragraph", "line", "space"]

_LISTED = """
adj adm al apr approx asst assoc aug ave bldg bros bzw ca capt cf cmdr co col corp dec dept dist dr ed eds eq est etc
evtl ext feb fig figs gen gov hon inc jan jr jul jun lt ltd maj messrs mlle mme mr mrs ms mt nos nov nr oct op p pp prof
ref rep reps rev sen sens sep sept sgt sr st supt univ usw vgl viz vol vols vs
"""
ABBREVIATIONS = frozenset(_LISTED.split())
"""Words, in lower case, after which a period does not end a sentence; `e.g.` and `U.S.` need no entry."""

LONGEST_WORD = 40
"""The most characters of a word before a period."""

_CLOSING = r"[\"'”’»)\]}」』】]*"
_END = re.compile(rf"[.!?…]+{_CLOSING}(?=\s)|[。！？｡]+{_CLOSING}")
_OPENING = re.compile(r"\s*[\"'“‘«(\[{¿¡「『【*_-]*")
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")


@dataclass(frozen=True, slots=True)
class Sentences:
    """Splits a text into sentences without losing anything but white space.

    1. A blank line ends a sentence; with `newlines="line"` every line end does, with "space" none.
    2. One or more of . ! ? … end a sentence before white space, unless a small letter follows, possibly after opening
       quotes and brackets. Closing quotes and brackets after the mark belong to the sentence. 。！？ always end it.
    3. A single period does not end a sentence after an abbreviation, after a single letter (J. Smith), after letters
       with periods between them (U.S., e.g.), and after a number at the beginning of a sentence (1. First).

    So a sentence that ends with an abbreviation is joined to the next one, unless a blank line is between them. Texts
    without punctuation are one sentence; `DocumentField` divides long sentences.

    Args:
        newlines: the line ends that end a sentence: those of blank lines, all, or none.
        abbreviations: words in lower case, without the period.

    >>> Sentences()("Dr. No met J. Bond at 3.15 p.m. sharp. “Why?” he asked. Nobody knew\\n\\nThe end")
    ['Dr. No met J. Bond at 3.15 p.m. sharp.', '“Why?” he asked.', 'Nobody knew', 'The end']
    """

    newlines: Newlines = "paragraph"
    abbreviations: frozenset[str] = ABBREVIATIONS

    def __post_init__(self) -> None:
        if self.newlines not in ("paragraph", "line", "space"):
            raise RegardError(f"newlines must be paragraph, line or space; got {self.newlines!r}.")

    def __call__(self, text: str) -> list[str]:
        """The sentences without surrounding white space; none for a blank text."""
        text = text.replace("\r\n", "\n")
        if self.newlines == "paragraph":
            blocks = _PARAGRAPH.split(text)
        else:
            blocks = text.split("\n") if self.newlines == "line" else [text]
        return [sentence for block in blocks for sentence in self._divided(block)]

    def _divided(self, block: str) -> list[str]:
        sentences, start = [], 0
        for match in _END.finditer(block):
            if self._ends(block, start, match):
                sentences.append(block[start : match.end()])
                start = match.end()
        sentences.append(block[start:])
        return [stripped for sentence in sentences if (stripped := sentence.strip())]

    def _ends(self, block: str, start: int, match: re.Match[str]) -> bool:
        mark = match[0]
        if mark[0] in "。！？｡":
            return True
        opening = _OPENING.match(block, match.end())
        assert opening is not None
        if block[opening.end() : opening.end() + 1].islower():
            return False
        if mark[0] != "." or mark[1:2] in (".", "!", "?", "…"):
            return True
        low = max(start, match.start() - LONGEST_WORD)
        before = block[low : match.start()].rsplit(None, 1)
        if not before:
            return True
        word = before[-1].strip("\"'“”‘’«»()[]{}")
        dotted = "." in word and all(len(part) == 1 and part.isalpha() for part in word.split("."))
        is_item = low == start and len(before) == 1 and word.isdigit()
        is_initial = len(word) == 1 and word.isalpha() and word.isupper()
        return not (word.lower() in self.abbreviations or dotted or is_initial or is_item)
