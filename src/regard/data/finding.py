"""A finding about data, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.errors import one_line

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
        return one_line(f"{self.severity}: {self.text}" + f" ({shown})" * bool(self.examples))
