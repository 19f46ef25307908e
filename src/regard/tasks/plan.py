"""The plan of a training: how many steps it has, and what followed from the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from regard.config import Config
from regard.tasks.open_keys import OpenKeys

FEW_STEPS = 1_000
"""The default of `Plan.few_steps`."""
WARMUP = 0.05
"""The share of the steps in which the learning rate rises."""

ConfigT = TypeVar("ConfigT", bound=Config)


@dataclass(frozen=True, slots=True)
class Plan(Generic[ConfigT]):
    """A configuration in which no key is open, and the figures it follows from.

    Args:
        open: the values that follow from the data.
        amount: how much data there is: `3,600 pairs, 32,000 symbols`.
        batch: what a batch has: `of up to 512 symbols`.
        batch_key: the key that says so, such as `training.batch_tokens`.
        steps_per_epoch: optimiser steps per epoch.
        notes: further lines.
        few_steps: with fewer optimiser steps most models stay untrained.
    """

    open: OpenKeys[ConfigT]
    amount: str
    batch: str
    batch_key: str
    steps_per_epoch: int
    notes: tuple[str, ...] = ()
    few_steps: int = FEW_STEPS

    @property
    def config(self) -> ConfigT:
        """The configuration with the chosen values."""
        return self.open.config

    @property
    def steps(self) -> int:
        """The optimiser steps of the whole training, unless it stops early."""
        return planned_steps(self.config, self.steps_per_epoch)

    @property
    def warnings(self) -> list[str]:
        """Warnings about settings with which the training will probably fail."""
        training, lines = self.config.training, []
        if self.steps + self.steps_per_epoch // 2 < self.few_steps:  # as many epochs as come nearest are enough
            lines.append(
                f"warning: {self.steps:,} steps are few; most models need {self.few_steps:,} or more. Lower "
                f"{self.batch_key} or raise training.epochs; if they are left out, both follow from the data"
            )
        if 2 * training.warmup_steps > self.steps:
            lines.append(
                f"warning: the learning rate rises for {training.warmup_steps:,} of {self.steps:,} steps. Lower "
                "training.warmup_steps, or leave it out"
            )
        return lines

    def __str__(self) -> str:
        training = self.config.training
        accumulated = f" × {training.accumulation} batches" if training.accumulation > 1 else ""
        lines = [
            f"plan: {self.amount}; {self.steps_per_epoch:,} steps per epoch, {self.batch}{accumulated}; "
            f"{training.epochs:,} epochs: {self.steps:,} steps"
        ]
        chosen = [shown] if (shown := str(self.open)) else []
        return "\n".join([*lines, *chosen, *self.notes, *self.warnings])


def choose_steps(open_keys: OpenKeys[Any], *, batches: int, steps: float, validations: int) -> int:
    """Chooses epochs, warm-up and the time between validations, and returns the steps per epoch.

    Args:
        batches: of an epoch.
        steps: how many the training should have.
        validations: how often it should be validated.
    """
    config = open_keys.given
    steps_per_epoch = max(1, math.ceil(batches / config.training.accumulation))
    open_keys.choose("training.epochs", max(1, round(steps / steps_per_epoch)))
    planned = planned_steps(open_keys.config, steps_per_epoch)
    open_keys.choose("training.warmup_steps", round(WARMUP * planned))
    if config.training.schedule == "noam" and (size := size_of(open_keys.config.model)) is not None:
        open_keys.choose("training.noam_size", size)
    open_keys.choose("training.validate_every", max(1, round(planned / validations)))
    return steps_per_epoch


def size_of(model: Any) -> int | None:
    """The width of a network, that of its decoder if it has one; None where no key says it."""
    for section in (getattr(model, "decoder", None), model, getattr(model, "encoder", None)):
        if isinstance(size := getattr(section, "size", None), int):
            return size
    return None


def planned_steps(config: Config, steps_per_epoch: int) -> int:
    """The steps of all epochs, or `max_steps` if that is less."""
    planned = steps_per_epoch * config.training.epochs
    return min(planned, config.training.max_steps or planned)


def falling_dropout(size: float, *, at_one: float, decay: float, least: float, most: float) -> float:
    """Dropout that falls by `decay` for ten times as much data, within limits, in steps of 0.05.

    Args:
        size: how much data there is, relative to what the numbers were tuned on.
        at_one: dropout at size 1.
    """
    return round(20 * min(max(at_one - decay * math.log10(size), least), most)) / 20
