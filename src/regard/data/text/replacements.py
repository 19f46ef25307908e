"""Replacements of words and phrases, from a table of the user."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from regard.data.defects import item_or_defect
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.data.text.normalisation import Normalisation
from regard.errors import DataError
from regard.files import replace_text

NUMBER = "{number}"
"""Stands for any number in a text of the table, and for the same number in its replacement."""
DIGITS = r"(?<!\d[.,\u00a0\u202f])(\d++(?:[.,\u00a0\u202f]\d++)*+)"
"""A whole number with its separators; possessive, so that matching takes linear time."""


@dataclass(frozen=True)
class Replacements:
    """Replaces words and phrases of a text, all of them in one pass: a replacement is not replaced again.

    A text of the table matches with the same letter case, and never inside a longer word. Where several match at the
    same place, the longest is replaced. `{number}` matches a number, which its replacement has in the same place.

    Args:
        entries: pairs of a text and its replacement.

    >>> replace = Replacements((("St.", "Street"), ("St. John", "Saint John"), ("${number}", "{number} dollars")))
    >>> replace("St. John paid $1,200 in Mill St., East.")
    'Saint John paid 1,200 dollars in Mill Street, East.'
    """

    entries: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path: Path | str) -> Replacements:
        """The replacements of a file with a text, a tab and its replacement in each line; blank lines are left out.

        Raises:
            DataError: for a file that cannot be read or has no replacements; for a line with another number of columns,
                without a text, with the text of another line, or with `{number}` in only one of its columns.
        """
        lines = Lines(path, skip_blank=True)
        entries: dict[str, str] = {}
        first: dict[str, int] = {}
        for index in range(len(lines)):
            place = f"{lines.path}:{lines.number(index)}"
            with item_or_defect:
                line = lines[index].removeprefix("\ufeff")
                columns = [column.strip() for column in line.split("\t")]
                if len(columns) != 2:
                    raise DataError(
                        f"{place}: expected a text and its replacement with a tab between them; got "
                        f"{len(columns)} column{'s' * (len(columns) > 1)} in {shorten(line)}."
                    )
                text, replacement = columns
                if not text:
                    raise DataError(f"{place}: there is no text before the tab in {shorten(line)}.")
                if text in first:
                    raise DataError(f"{place}: {shorten(text)} is also the text of line {first[text]}.")
                if text.count(NUMBER) != replacement.count(NUMBER) or NUMBER * 2 in text:
                    raise DataError(
                        f"{place}: {NUMBER} must occur as often in the replacement as in the text, and not twice in a "
                        f"row; got {shorten(line)}."
                    )
                entries[text], first[text] = replacement, lines.number(index)
        if not entries:
            raise DataError(f"{lines.path}: there are no replacements.")
        return cls(tuple(entries.items()))

    def save(self, path: Path) -> None:
        """Writes the table."""
        replace_text(path, "".join(f"{text}\t{replacement}\n" for text, replacement in self.entries))

    def in_form(self, normalisation: Normalisation) -> Replacements:
        """The replacements in a Unicode form."""
        return Replacements(tuple((normalisation(text), normalisation(to)) for text, to in self.entries))

    def __call__(self, text: str) -> str:
        return self._pattern.sub(self._replaced, text)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The texts, the longest first; those with numbers are named groups that have a group for each number."""
        order = sorted(range(len(self.entries)), key=lambda i: -len(self.entries[i][0].replace(NUMBER, "0")))
        expressions = ((i, self.entries[i][0]) for i in order)
        return re.compile(
            "|".join(
                f"(?P<e{i}>{_expression(each)})" if NUMBER in each else _expression(each) for i, each in expressions
            )
        )

    @cached_property
    def _by_text(self) -> dict[str, str]:
        return dict(self.entries)

    def _replaced(self, match: re.Match[str]) -> str:
        if match.lastgroup is None:
            return self._by_text[match[0]]
        first = match.re.groupindex[match.lastgroup]
        replacement = self.entries[int(match.lastgroup[1:])][1]
        numbers = iter(match.groups()[first:])
        return re.sub(re.escape(NUMBER), lambda _: next(numbers), replacement)


def _expression(text: str) -> str:
    """The expression of a text of the table, with a group for each number."""
    before = f"(?<![\\w{_marks()}])" if text.startswith(NUMBER) or _is_in_word(text[0]) else ""
    after = f"(?![\\w{_marks()}])" if text.endswith(NUMBER) or _is_in_word(text[-1]) else ""
    return before + DIGITS.join(map(re.escape, text.split(NUMBER))) + after


def _is_in_word(character: str) -> bool:
    """Whether a character is part of a word; a mark is one without being a letter, such as the sign of a vowel."""
    return character.isalnum() or character == "_" or _is_mark(character)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


@cache
def _marks() -> str:
    """The marks of scripts, for a class of characters."""
    return "".join(chr(code) for code in range(0x300, 0xFE30) if _is_mark(chr(code)))
