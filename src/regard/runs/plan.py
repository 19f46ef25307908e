"""The plan of a training: how many steps it has, and what followed from the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from regard.config import Config
from regard.config.schema import is_set
from regard.errors import counted
from regard.runs.automatic_settings import OpenKeys

FEW_STEPS = 1_000
"""The default of `Plan.few_steps`."""
VALIDATION_SHARE, LEAST_VALIDATIONS = 0.1, 5
"""Validations that follow from the data take at most this share of the time of a training, but there are so many, in a
training of `FEW_STEPS` or more; in a shorter one there may be only the one at the end."""
SLOW_VALIDATIONS = 0.25
"""From this share on, the plan warns."""
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
        few_steps: with fewer optimiser steps most models stay untrained.
        validation_cost: the time of a validation, in epochs of training (`choose_steps`).
    """

    open: OpenKeys[ConfigT]
    amount: str
    batch: str
    batch_key: str
    steps_per_epoch: int
    notes: tuple[str, ...] = ()
    few_steps: int = FEW_STEPS
    validation_cost: float = 0.0

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
                f"warning: {counted(self.steps, 'step|steps is|are few')}; most models need {self.few_steps:,} or "
                f"more. {self._remedy()}"
            )
        validations = self.steps // (training.validate_every or self.steps_per_epoch)
        cost = validations * self.validation_cost * self.steps_per_epoch
        if (share := cost / max(self.steps + cost, 1)) >= SLOW_VALIDATIONS:
            remedy = "Fewer held-out items are enough to choose the best weights"
            if is_set(self.open.given, ("training", "validate_every")):
                remedy = "Raise training.validate_every; left out, it follows from the data"
            lines.append(
                f"warning: {counted(validations, 'validation|validations takes|take')} about {share:.0%} of the "
                f"time of the training. {remedy}"
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
        per_epoch = f"{counted(self.steps_per_epoch, 'step|steps')} per epoch, {self.batch}{accumulated}"
        lines = [f"plan: {self.amount}; {per_epoch}; {self._length()}"]
        chosen = [shown] if (shown := str(self.open)) else []
        return "\n".join([*lines, *chosen, *self.notes, *self.warnings])

    def _length(self) -> str:
        """How long the training is, and by which key."""
        training, steps = self.config.training, counted(self.steps, "step|steps")
        epochs = counted(training.epochs, "epoch|epochs")
        if self.steps < training.epochs * self.steps_per_epoch:
            share = self.steps / self.steps_per_epoch
            text = f"{steps}, as training.max_steps says: {share:.3g} of {epochs}"
        else:
            text = f"{epochs}: {steps}"
        if training.early_stopping is not None:
            text += (
                f", fewer if {counted(training.early_stopping, 'validation|validations')} in a row bring no improvement"
            )
        return text

    def _remedy(self) -> str:
        """Which of the keys that are set makes the training short, and what to do."""
        if self.steps < self.config.training.epochs * self.steps_per_epoch:
            return "Raise training.max_steps, or leave it out"
        changes = {"training.epochs": "raise", self.batch_key: "lower"}
        remedies = [
            f"{change} {key}" for key, change in changes.items() if is_set(self.open.given, tuple(key.split(".")))
        ]
        text = " or ".join(remedies or ["raise training.epochs"])
        left_out = "; left out, both follow" if len(remedies) == 2 else "; left out, it follows"
        return f"{text[0].upper()}{text[1:]}{left_out} from the data"


def choose_steps(
    open_keys: OpenKeys[Any], *, batches: int, steps: float, validations: int, validation_cost: float = 0.0
) -> int:
    """Chooses epochs, warm-up and the time between validations, and returns the steps per epoch.

    Args:
        batches: of an epoch.
        steps: how many the training should have; as many as `max_steps` if that is more.
        validations: how often it should be validated, at most: fewer times if that took more than a tenth of the time.
        validation_cost: the time of a validation, in epochs of training. It is estimated from the number of items, and
            not measured, so that it is the same in every run.
    """
    config = open_keys.given
    steps_per_epoch = max(1, math.ceil(batches / config.training.accumulation))
    enough = math.ceil((config.training.max_steps or 0) / steps_per_epoch)
    open_keys.choose("training.epochs", max(1, round(steps / steps_per_epoch), enough))
    planned = planned_steps(open_keys.config, steps_per_epoch)
    open_keys.choose("training.warmup_steps", round(WARMUP * planned))
    if config.training.schedule == "noam" and (size := size_of(open_keys.config.model)) is not None:
        open_keys.choose("training.noam_size", size)
    affordable = planned * VALIDATION_SHARE / (1 - VALIDATION_SHARE) / max(validation_cost * steps_per_epoch, 1e-9)
    least = LEAST_VALIDATIONS if planned >= FEW_STEPS else 1
    validations = min(validations, max(int(affordable), least))
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
