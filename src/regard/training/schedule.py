"""Learning rate schedules: functions of the step, counted from 1, and the plateau, which depends on validations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.config.schema import TrainingConfig
from regard.errors import ConfigError


def inverse_square_root(step: int, *, warmup_steps: int) -> float:
    """1 until the warm-up ends, then falling as 1/√step (Vaswani 2017, section 5.3, without the factor of the width).

    >>> inverse_square_root(400, warmup_steps=100)
    0.5
    """
    start = max(warmup_steps, 1)
    return math.sqrt(start / max(step, start))


def cosine(step: int, *, warmup_steps: int, total_steps: int, floor: float = 0.0) -> float:
    """1 until the warm-up ends, then half a cosine down to `floor` at the last step (Loshchilov and Hutter 2017).

    >>> cosine(60, warmup_steps=20, total_steps=100)
    0.5
    """
    progress = min(max(step - warmup_steps, 0) / max(total_steps - warmup_steps, 1), 1.0)
    return floor + (1.0 - floor) * (1.0 + math.cos(math.pi * progress)) / 2.0


def noam(step: int, *, warmup_steps: int, size: int) -> float:
    """D^-0.5 · min(step^-0.5, step · W^-1.5), with W the steps of the warm-up (Vaswani 2017, section 5.3).

    >>> round(noam(4000, warmup_steps=4000, size=512), 6)
    0.000699
    """
    return size**-0.5 * min(step**-0.5, step * max(warmup_steps, 1) ** -1.5)


def warmup(step: int, *, warmup_steps: int) -> float:
    """Linear from 0 at step 0 to 1 at step `warmup_steps`.

    >>> [warmup(step, warmup_steps=4) for step in (1, 2, 4, 5)]
    [0.25, 0.5, 1.0, 1.0]
    """
    return min(step / warmup_steps, 1.0) if warmup_steps else 1.0


@dataclass(slots=True)
class Plateau:
    """A factor that is multiplied by `decay` when `patience` + 1 validations in a row have not improved the metric."""

    decay: float
    patience: int
    factor: float = 1.0
    stale: int = 0

    def observe(self, *, improved: bool) -> None:
        """Counts a validation."""
        self.stale = 0 if improved else self.stale + 1
        if self.stale > self.patience:
            self.factor *= self.decay
            self.stale = 0


class Schedule:
    """The learning rate of every step: the warm-up times a schedule with a floor; `noam` as published.

    Args:
        total_steps: planned steps of the run, at the last of which `cosine` reaches the floor.

    Raises:
        ConfigError: if the floor is above the learning rate.
    """

    def __init__(self, config: TrainingConfig, *, total_steps: int) -> None:
        if config.schedule != "noam" and config.min_learning_rate > config.learning_rate:
            raise ConfigError(
                f"training.min_learning_rate is {config.min_learning_rate:g}, above training.learning_rate "
                f"({config.learning_rate:g}). Lower it.",
                ("training", "min_learning_rate"),
            )
        self._config = config
        self._size = config.noam_size or 1
        self._total_steps = total_steps
        self.plateau = Plateau(config.plateau_factor, config.plateau_patience)

    def observe(self, *, improved: bool) -> None:
        """Counts a validation; only `plateau` depends on it."""
        if self._config.schedule == "plateau":
            self.plateau.observe(improved=improved)

    def learning_rate(self, step: int) -> float:
        """The rate of a step, counted from 1."""
        config = self._config
        floor = config.min_learning_rate / config.learning_rate
        if config.schedule == "noam":
            rate = config.noam_factor * noam(step, warmup_steps=config.warmup_steps, size=self._size)
            return rate if step < config.warmup_steps else max(rate, config.min_learning_rate)
        match config.schedule:
            case "constant":
                factor = 1.0
            case "inverse_square_root":
                factor = inverse_square_root(step, warmup_steps=config.warmup_steps)
            case "cosine":
                factor = cosine(step, warmup_steps=config.warmup_steps, total_steps=self._total_steps, floor=floor)
            case "plateau":
                factor = self.plateau.factor
        return config.learning_rate * max(factor, floor) * warmup(step, warmup_steps=config.warmup_steps)
