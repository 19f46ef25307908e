"""A finding about data, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
NUM_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the data.

    Args:
        severity: `error`: training makes no sense; `warning`: look at it; `info`: good to know.
        text: what was found, with its count.
        count: of pairs, or of symbols.
        examples: the first of them, by `file:line`.
    """

    severity: Severity
    text: str
    count: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(self.examples) + ", …" * (self.count > len(self.examples))
        return printable(f"{self.severity}: {self.text}" + f" ({shown})" * bool(self.examples))


def printable(text: str) -> str:
    """The text on one line, what a terminal would obey or hide written as an escape.

    >>> print(printable("a\\x1b[2Jb\\u202e"))
    a\\x1b[2Jb\\u202e
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
