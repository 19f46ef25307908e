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
    """An observation about the data.

    Args:
        severity: `error`: training would be pointless; `warning`: should be looked at; `info`: for information.
        text: the observation, with its count.
        count: the number of pairs, or of symbols, that it is about.
        examples: the first of these, as `file:line`.
    """

    severity: Severity
    text: str
    count: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(self.examples) + ", …" * (self.count > len(self.examples))
        return one_line(f"{self.severity}: {self.text}" + f" ({shown})" * bool(self.examples))
