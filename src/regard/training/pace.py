"""How long the rest of a run will take, from what its last steps and validations took."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

FIRST_STEPS, TIMED_STEPS, KEPT_STEPS = 5, 50, 200
"""The first steps of a process fill caches and do not count; an estimate needs so many others; the last ones count."""


@dataclass
class Pace:
    """The seconds of a process's last steps, and of its last validation, without the pictures that few of them draw."""

    made: int = 0
    steps: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_STEPS))
    validation: float | None = None

    def add(self, seconds: float) -> None:
        """Counts a step."""
        self.made += 1
        if self.made > FIRST_STEPS:
            self.steps.append(seconds)

    def remaining(self, steps: int, validations: int) -> float | None:
        """Seconds for so many further steps and validations; None if too few have been timed to tell."""
        if len(self.steps) < TIMED_STEPS or (validations and self.validation is None):
            return None
        return steps * sum(self.steps) / len(self.steps) + validations * (self.validation or 0.0)
