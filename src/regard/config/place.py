"""Where a configuration says what, and what is wrong there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.errors import ConfigError

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file, or an override as a whole (line 0); places sort in the order of reading."""

    rank: int
    line: int
    column: int
    origin: str

    def __str__(self) -> str:
        return f"{self.origin}:{self.line}:{self.column}" if self.line else self.origin

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
        where = f": {dotted(self.path)}" if self.path and self.path != self.named else ""
        return f"{self.place}{where}: {self.what}"


def dotted(path: KeyPath) -> str:
    """The path as it is written after `--set`.

    >>> dotted(("model", "encoder", "size"))
    'model.encoder.size'
    """
    return ".".join(str(part) for part in path)


def refuse(problems: list[Problem]) -> ConfigError:
    """One error that names every problem, a line each, in the order of reading."""
    ordered = sorted(problems, key=lambda problem: problem.place)
    return ConfigError("\n".join(dict.fromkeys(map(str, ordered))), ordered[0].path)
