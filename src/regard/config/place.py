"""Places in configurations, and problems at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, one_line

KeyPath = tuple[str | int, ...]
MAX_SHOWN = 120
"""The most characters of a user's text in a message."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file, or a whole override (line 0); places are ordered as they are read."""

    order: int
    line: int
    column: int
    origin: str

    def __str__(self) -> str:
        origin = legible(self.origin)
        return f"{origin}:{self.line}:{self.column}" if self.line else origin

    def __lt__(self, other: Place) -> bool:
        return (self.order, self.line, self.column) < (other.order, other.line, other.column)


@dataclass(frozen=True, slots=True)
class Entry:
    """The places of a key and its value, the text of a plain scalar, and the folder that relative paths start from."""

    key: Place
    value: Place
    written: str | None
    folder: Path
    override: KeyPath | None = None  # the key that the override names


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem at a place."""

    place: Place
    path: KeyPath
    what: str
    override: KeyPath | None = None

    def __str__(self) -> str:
        where = f": {legible(dotted(self.path))}" if self.path and self.path != self.override else ""
        return f"{self.place}{where}: {self.what}"


def dotted(path: KeyPath) -> str:
    """The path in the form of `--set`.

    >>> dotted(("model", "encoder", "size"))
    'model.encoder.size'
    """
    return ".".join(str(part) for part in path)


def legible(text: str, limit: int = MAX_SHOWN) -> str:
    """A text for messages: on one line, without control characters, and cut if it is long.

    >>> print(legible("a" + chr(27) + "[31m" + 100 * "b", 20))
    a\\x1b[31mbbbbbbbbbb…
    """
    return cut(one_line(text[: limit + 1]), limit)


def yaml_text(value: Any) -> str:
    """A value in YAML, numbers with six digits.

    >>> yaml_text({"a": (1e-3, None), "b": True})
    '{a: [0.001, null], b: true}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {yaml_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(yaml_text, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def cut(text: str, limit: int = MAX_SHOWN) -> str:
    """A text of at most `limit` characters, with an ellipsis if it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_start(text: str, limit: int) -> str:
    """A text without its beginning, as paths are told apart by their ends."""
    return text if len(text) <= limit else "…" + text[1 - limit :]


def without_folder(place: str, data: str) -> str:
    """A place in data without the folder of their file, for pages that name it once.

    >>> without_folder("runs/words/test.tsv:3", "runs/words/test.tsv")
    'test.tsv:3'
    """
    name = Path(data).name
    return name + place[len(data) :] if place.startswith(data) else place


def error_of(problems: list[Problem]) -> ConfigError:
    """One error with all problems, one per line, in the order of reading."""
    ordered = sorted(problems, key=lambda problem: problem.place)
    return ConfigError("\n".join(dict.fromkeys(map(str, ordered))), ordered[0].path)
