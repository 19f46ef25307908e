"""How far a run has come, and how long the rest will take."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

FIRST_STEPS, TIMED_STEPS, KEPT_STEPS = 5, 50, 200
"""The first steps of a process fill caches and do not count; an estimate needs so many others; the last ones count."""


@dataclass(slots=True)
class Position:
    """How far a run has come; plain values.

    Args:
        step: optimiser steps made.
        epoch: epochs completed.
        batch: used batches of the epoch that is not completed.
        seconds: seconds of training and validation.
        averaged: the steps of the validations whose weights are averaged if the run ends now.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    averaged: tuple[int, ...] = ()

    @property
    def current_epoch(self) -> int:
        """The epoch of the last step, counted from 1."""
        return self.epoch + (self.batch > 0)


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
