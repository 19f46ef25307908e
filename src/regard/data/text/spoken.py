"""Numbers and abbreviations in words, by packages of the extra `regard[speech]`."""

from __future__ import annotations

import re
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

from regard.config.spelling import did_you_mean, nearest
from regard.errors import ConfigError
from regard.lazy import optional

EXTRA = "speech"
POINT = frozenset(
    ("ar", "bn", "ce", "cy", "en", "en_IN", "en_NG", "es_GT", "es_NI", "fa", "he", "ja", "kn", "ko", "te", "th")
)
"""The languages of num2words that write decimals with a point, by CLDR 48; the others have a comma."""
UNSPACED = frozenset(("ja", "th"))
"""The languages of num2words that have no blanks between words."""
MOST_DIGITS = 15
"""The digits of a number from which on its digits are read one by one."""
FAILURES = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""The errors that num2words raises for numbers that it cannot read in a language."""
_lock = threading.Lock()
"""Both packages keep the state of a call in objects that all threads share."""


@dataclass(frozen=True)
class AbstractSpoken(ABC):
    """Writes a part of a text in words by a package, whose function has the package's name.

    Args:
        language: the code of a language of the package, such as `en`.
        version: of the package in the training; None for the installed one.
    """

    language: str
    version: str | None = field(default=None, compare=False)
    package: ClassVar[str]
    key: ClassVar[str]
    refused: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Languages of the package that cannot be used, and why."""

    @abstractmethod
    def __call__(self, text: str) -> str:
        """The text in words."""

    def check(self) -> None:
        """Raises an error for a package that is not installed or does not have the language."""
        _ = self._library

    @cached_property
    def _library(self) -> Callable[..., Any]:
        """The function of the package; warns if the version is not that of the training."""
        module = optional(self.package, f"data.{self.key} needs", extra=EXTRA)
        installed = installed_version(self.package)
        if self.version not in (None, installed):
            warnings.warn(
                f"{self.package} {installed} is installed, and the texts of the training were read by "
                f"{self.package} {self.version}; {self.key} may be read differently",
                stacklevel=2,
            )
        if self.language in self.refused:
            raise ConfigError(f"{self.language}: {self.refused[self.language]}", ("data", self.key))
        _check_language(self, [code for code in self._languages(module) if code not in self.refused])
        function: Callable[..., Any] = getattr(module, self.package)
        return function

    @staticmethod
    @abstractmethod
    def _languages(module: Any) -> Sequence[str]:
        """The codes of the languages of the package."""


@dataclass(frozen=True)
class SpokenNumbers(AbstractSpoken):
    """Writes the numbers of a text in words by num2words; normalising is idempotent, as the words have no digits.

    Thousands may be separated, decimals have the mark of the language, and ordinals its ending (`3rd`, `3º`). A number
    with a zero in front, or of more than 15 digits, is read digit by digit. Numbers that num2words cannot read in this
    language, such as Italian decimals, stay as they are.

    >>> SpokenNumbers("en")("The 3rd of 1,204 rooms costs $7.50, or 007.")
    'The third of one thousand, two hundred and four rooms costs $seven point five, or zero zero seven.'
    """

    package: ClassVar[str] = "num2words"
    key: ClassVar[str] = "numbers"
    refused: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"am": "num2words raises an error, or does not end, for many Amharic numbers"}
    )

    def __call__(self, text: str) -> str:
        return self._pattern.sub(self._spoken, text)

    @staticmethod
    def _languages(module: Any) -> Sequence[str]:
        return list(module.CONVERTER_CLASSES)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        decimal, group = (r"\.", ",") if self.language in POINT else (",", r"\.")
        return re.compile(
            rf"(?:(?<![\w.,)\]%])(?P<sign>[-−]))?(?<!\d)(?<!\d[.,])"
            rf"(?P<whole>\d{{1,3}}(?P<mark>[{group}\u00a0\u202f\u2009'’])\d{{3}}(?:(?P=mark)\d{{3}}){{0,6}}|\d+)"
            rf"(?:{decimal}(?P<part>\d+))?(?![.,]?\d)(?P<ending>[^\W\d_]+)?|(?P<digits>\d+)"
        )

    def _spoken(self, match: re.Match[str]) -> str:
        before = match.string[match.start() - 1] if match.start() else ""
        gap = "" if self.language in UNSPACED else " "
        blank = gap if before.isalnum() else ""
        if match["digits"] is not None:
            after = match.string[match.end() : match.end() + 1]
            words = self._integer(match["digits"])
            return match[0] if words is None else blank + words + gap * after.isalpha()
        whole, part, ending = re.sub(r"\D", "", match["whole"]), match["part"], match["ending"] or ""
        if ending and part is None and not match["sign"] and (ordinal := self._ordinal(whole, ending)):
            return blank + ordinal
        words = self._integer(whole) if part is None else self._decimal(whole, part)
        if words is None:
            return match[0]
        if match["sign"]:
            words = self._negative(f"{whole}.{part}" if part else whole, words) or match["sign"] + words
        return blank + words + (gap + ending if ending else "")

    def _said(self, number: int | str, *, to: str = "cardinal") -> str | None:
        """The words of a number; None if num2words has none."""
        library = self._library
        with _lock:
            try:
                words = str(library(number, lang=self.language, to=to)).strip()
            except FAILURES:
                return None
        return words or None

    def _integer(self, digits: str) -> str | None:
        if len(digits) <= MOST_DIGITS and (digits[0] == "0") == (len(digits) == 1):
            words = self._said(int(digits))
            if words is not None and not re.search(r"\d", words):
                return words
        each = [self._said(int(digit)) for digit in digits]
        return None if None in each else " ".join(map(str, each))

    def _decimal(self, whole: str, part: str) -> str | None:
        """The words of a decimal; None if those of num2words drop its digits, as in some languages."""
        if len(whole) + len(part) > MOST_DIGITS:
            return None
        words = self._said(f"{int(whole)}.{part}")
        others = [self._said(int(whole)), *([self._said(f"{int(whole)}.{part[1:]}")] if part[:1] == "0" else [])]
        return None if words is None or words in others or re.search(r"\d", words) else words

    def _ordinal(self, digits: str, ending: str) -> str | None:
        """The words of digits with the ending of an ordinal number of the language; None for another ending."""
        if len(digits) > MOST_DIGITS or self._said(int(digits), to="ordinal_num") != digits + ending:
            return None
        words = self._said(int(digits), to="ordinal")
        return None if words is None or re.search(r"\d", words) else words

    def _negative(self, number: str, words: str) -> str | None:
        """The words of a negative number; None if those of the number are not in them, as in some languages."""
        negative = self._said(f"-{number}")
        return negative if negative is not None and words in negative and negative != words else None


@dataclass(frozen=True)
class SpokenAbbreviations(AbstractSpoken):
    """Writes the abbreviations and units of a text in words by abbr2words.

    >>> SpokenAbbreviations("en")("Dr. Lee walked approx. 3 km, i.e. too far.")
    'Doctor Lee walked approximately 3 kilometer, that is too far.'
    """

    package: ClassVar[str] = "abbr2words"
    key: ClassVar[str] = "abbreviations"

    def __call__(self, text: str) -> str:
        with _lock:
            return str(self._library(text, lang=self.language))

    @staticmethod
    def _languages(module: Any) -> Sequence[str]:
        codes: Sequence[str] = module.supported_languages()
        return codes


def installed_version(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    from importlib import metadata  # slow to import

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _check_language(spoken: AbstractSpoken, known: Sequence[str]) -> None:
    if spoken.language in known:
        return
    asked = spoken.language.replace("-", "_")
    base = asked.split("_")[0].lower()
    near = next((code for code in known if code.lower() == asked.lower()), base if base in known else None)
    near = near or nearest(asked, known) or next((code for code in known if base.startswith(code)), None)
    hint = did_you_mean(near) if near else f"it has {', '.join(sorted(known))}"
    raise ConfigError(
        f"{spoken.package} has no language {spoken.language!r}; {hint}\n  For other languages give a table "
        "(data.replacements) or a function (data.normaliser).",
        ("data", spoken.key),
    )
