"""Findings about data and their texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from regard.errors import counted, one_line

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
NUM_EXAMPLES, MOST_HINTS = 3, 6


@dataclass(frozen=True, slots=True)
class Finding:
    """An observation about the data.

    Args:
        severity: `error`: training would be pointless; `warning`: to be checked by the user; `info`: for information.
        text: the observation, with its count.
        count: the number of pairs or symbols concerned.
        examples: the first of these, as `file:line`.
        details: further lines, shown below the text.
        of_few: whether it says that there are few training items, which matters less where a model is adapted.
    """

    severity: Severity
    text: str
    count: int
    examples: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    of_few: bool = False

    @classmethod
    def of_message(cls, severity: Severity, message: str) -> Finding:
        """A finding from the whole message of an error."""
        first, *hints = (line.strip() for line in message.splitlines())
        return cls(severity, first, 1, details=tuple(hints))

    @classmethod
    def of_messages(cls, severity: Severity, text: str, messages: Sequence[str]) -> Finding:
        """A finding from messages of one kind: a single one as it is, or the number of them and the first.

        Args:
            text: the part that they share, which follows their number.
        """
        if len(messages) == 1:
            return cls.of_message(severity, messages[0])
        shown = [message.partition("\n")[0] for message in messages[:NUM_EXAMPLES]]
        if more := len(messages) - len(shown):
            shown.append(f"… and {more:,} more")
        hints = dict.fromkeys(hint.strip() for message in messages for hint in message.splitlines()[1:])
        details = (*shown, *islice(hints, MOST_HINTS))
        return cls(severity, f"{len(messages):,} {text}:", len(messages), details=details)

    def __str__(self) -> str:
        shown = ", ".join(self.examples) + ", …" * (self.count > len(self.examples))
        text = f"{self.severity}: {self.text}" + f" ({shown})" * bool(self.examples)
        return "\n  ".join(map(one_line, (text, *self.details)))


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a check; `str` shows each on its own line.

    Args:
        findings: errors, warnings and information about the data.
    """

    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Whether any finding is an error."""
        return any(finding.severity == "error" for finding in self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))


def too_few(num_train: int, num_held_out: int, noun: str, *, least: tuple[int, int]) -> Iterator[Finding]:
    """Warnings about few training items and few held-out items.

    Args:
        noun: of the items, in singular and plural: `pair|pairs`.
        least: the numbers of both from which on there is no warning.

    >>> [finding.text for finding in too_few(500, 1, "pair|pairs", least=(200, 20))]
    ['1 held-out pair is too few for reliable metrics']
    """
    if 0 < num_train < least[0]:
        text = counted(num_train, f"training {noun} is|are too few to learn much from")
        yield Finding("warning", text, num_train, of_few=True)
    if 0 < num_held_out < least[1]:
        text = counted(num_held_out, f"held-out {noun} is|are too few for reliable metrics")
        yield Finding("warning", text, num_held_out)


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with the most severe first, otherwise in their order."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
