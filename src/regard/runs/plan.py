"""The plan of a training: the number of its steps, and the settings that follow from the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from regard.config import Config
from regard.config.schema import is_set
from regard.errors import counted
from regard.runs.automatic_settings import AutomaticSettings

FEW_STEPS = 1_000
"""The default of `Plan.few_steps`."""
VALIDATION_SHARE, LEAST_VALIDATIONS = 0.1, 5
"""The largest share of the time of a training that automatic validations take, and their least number in a training of
`FEW_STEPS` or more; a shorter one may have only the one at its end."""
SLOW_VALIDATIONS = 0.25
"""The share of the time of validations from which on the plan warns."""
WARMUP = 0.05
"""The share of the steps in which the learning rate rises."""

ConfigT = TypeVar("ConfigT", bound=Config)


@dataclass(frozen=True, slots=True)
class Plan(Generic[ConfigT]):
    """A complete configuration, and the figures that it follows from.

    Args:
        automatic: the settings that follow from the data.
        amount: the amount of data, such as `3,600 pairs, 32,000 symbols`.
        batch: the size of a batch, such as `of up to 512 symbols`.
        batch_key: the key of this size, such as `training.batch_tokens`.
        few_steps: with fewer optimiser steps most models stay untrained.
        validation_cost: the time of a validation, in epochs of training (`choose_steps`).
    """

    automatic: AutomaticSettings[ConfigT]
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
        return self.automatic.config

    @property
    def steps(self) -> int:
        """The optimiser steps of the whole training, unless it stops early."""
        return planned_steps(self.config, self.steps_per_epoch)

    @property
    def warnings(self) -> list[str]:
        """Warnings about settings with which the training will probably fail."""
        training, lines = self.config.training, []
        if self.steps + self.steps_per_epoch // 2 < self.few_steps:  # the nearest number of epochs is enough
            lines.append(
                f"warning: {counted(self.steps, 'step|steps is|are few')}; most models need {self.few_steps:,} or "
                f"more. {self._remedy()}"
            )
        validations = self.steps // (training.validate_every or self.steps_per_epoch)
        cost = validations * self.validation_cost * self.steps_per_epoch
        if (share := cost / max(self.steps + cost, 1)) >= SLOW_VALIDATIONS:
            remedy = "Fewer held-out items are enough to choose the best weights"
            if is_set(self.automatic.original, ("training", "validate_every")):
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
        chosen = [shown] if (shown := str(self.automatic)) else []
        return "\n".join([*lines, *chosen, *self.notes, *self.warnings])

    def _length(self) -> str:
        """The length of the training, and the key that limits it."""
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
        """What to do about a short training: the keys that make it short, with their change."""
        if self.steps < self.config.training.epochs * self.steps_per_epoch:
            return "Raise training.max_steps, or leave it out"
        changes, original = {"training.epochs": "raise", self.batch_key: "lower"}, self.automatic.original
        remedies = [f"{change} {key}" for key, change in changes.items() if is_set(original, tuple(key.split(".")))]
        text = " or ".join(remedies or ["raise training.epochs"])
        left_out = "; left out, both follow" if len(remedies) == 2 else "; left out, it follows"
        return f"{text[0].upper()}{text[1:]}{left_out} from the data"


def choose_steps(
    settings: AutomaticSettings[Any], *, batches: int, steps: float, validations: int, validation_cost: float = 0.0
) -> int:
    """Chooses epochs, warm-up and the time between validations, and returns the steps per epoch.

    Args:
        batches: the number of batches of an epoch.
        steps: the desired number of steps; `max_steps` if that is more.
        validations: the largest number of validations; fewer if they took more than a tenth of the time.
        validation_cost: the time of a validation, in epochs of training, estimated from the number of items so that it
            is the same in every run.
    """
    config = settings.original
    steps_per_epoch = max(1, math.ceil(batches / config.training.accumulation))
    enough = math.ceil((config.training.max_steps or 0) / steps_per_epoch)
    settings.choose("training.epochs", max(1, round(steps / steps_per_epoch), enough))
    planned = planned_steps(settings.config, steps_per_epoch)
    settings.choose("training.warmup_steps", round(WARMUP * planned))
    if config.training.schedule == "noam" and (size := size_of(settings.config.model)) is not None:
        settings.choose("training.noam_size", size)
    affordable = planned * VALIDATION_SHARE / (1 - VALIDATION_SHARE) / max(validation_cost * steps_per_epoch, 1e-9)
    least = LEAST_VALIDATIONS if planned >= FEW_STEPS else 1
    validations = min(validations, max(int(affordable), least))
    settings.choose("training.validate_every", max(1, round(planned / validations)))
    return steps_per_epoch


def size_of(model: Any) -> int | None:
    """The width of a network, that of its decoder if it has one; None if it has no such key."""
    for section in (getattr(model, "decoder", None), model, getattr(model, "encoder", None)):
        if isinstance(size := getattr(section, "size", None), int):
            return size
    return None


def planned_steps(config: Config, steps_per_epoch: int) -> int:
    """The steps of all epochs, or `max_steps` if that is less."""
    planned = steps_per_epoch * config.training.epochs
    return min(planned, config.training.max_steps or planned)


def falling_dropout(size: float, *, at_one: float, decay: float, least: float, most: float) -> float:
    """Dropout that falls by `decay` for each tenfold amount of data, within limits, in steps of 0.05.

    Args:
        size: the amount of data, relative to that on which the numbers were tuned.
        at_one: dropout at size 1.
    """
    return round(20 * min(max(at_one - decay * math.log10(size), least), most)) / 20
