"""Where a configuration says what, and what is wrong there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.errors import ConfigError, one_line

KeyPath = tuple[str | int, ...]
LONGEST = 120
"""Characters of a part of a message that somebody else wrote."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file, or an override as a whole (line 0); places sort in the order of reading."""

    rank: int
    line: int
    column: int
    origin: str

    def __str__(self) -> str:
        origin = legible(self.origin)
        return f"{origin}:{self.line}:{self.column}" if self.line else origin

    def __lt__(self, other: Place) -> bool:
        return (self.rank, self.line, self.column) < (other.rank, other.line, other.column)


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a key and its value stand, how a plain scalar was written, and what its relative paths start from."""

    key: Place
    value: Place
    written: str | None
    folder: Path
    named: KeyPath | None = None  # the key an override spells out itself


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, at one place."""

    place: Place
    path: KeyPath
    what: str
    named: KeyPath | None = None

    def __str__(self) -> str:
        where = f": {legible(dotted(self.path))}" if self.path and self.path != self.named else ""
        return f"{self.place}{where}: {self.what}"


def dotted(path: KeyPath) -> str:
    """The path as it is written after `--set`.

    >>> dotted(("model", "encoder", "size"))
    'model.encoder.size'
    """
    return ".".join(str(part) for part in path)


def legible(text: str, limit: int = LONGEST) -> str:
    """A text as messages show it: on one line, nothing that a terminal obeys, cut where it is long.

    >>> print(legible("a" + chr(27) + "[31m" + 100 * "b", 20))
    a\\x1b[31mbbbbbbbbbb…
    """
    return cut(one_line(text[: limit + 1]), limit)


def cut(text: str, limit: int = LONGEST) -> str:
    """A text, with an ellipsis for what is beyond a limit of characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def refuse(problems: list[Problem]) -> ConfigError:
    """One error that names every problem, a line each, in the order of reading."""
    ordered = sorted(problems, key=lambda problem: problem.place)
    return ConfigError("\n".join(dict.fromkeys(map(str, ordered))), ordered[0].path)
