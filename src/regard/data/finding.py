"""A finding about data, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterable
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
        details: further lines, shown below it.
    """

    severity: Severity
    text: str
    count: int
    examples: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    @classmethod
    def of_message(cls, severity: Severity, message: str) -> Finding:
        """The finding that one error is, with the whole of its message."""
        first, *hints = (line.strip() for line in message.splitlines())
        return cls(severity, first, 1, details=tuple(hints))

    def __str__(self) -> str:
        shown = ", ".join(self.examples) + ", …" * (self.count > len(self.examples))
        text = f"{self.severity}: {self.text}" + f" ({shown})" * bool(self.examples)
        return "\n  ".join(map(one_line, (text, *self.details)))


@dataclass(frozen=True, slots=True)
class Findings:
    """What a check of data found; `str` shows each on a line of its own.

    Args:
        findings: errors, warnings and information about the data.
    """

    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Whether a finding makes training pointless."""
        return any(finding.severity == "error" for finding in self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, the most severe first, otherwise in their order."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
