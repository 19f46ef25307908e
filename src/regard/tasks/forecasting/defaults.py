"""Defaults that follow from the data: windows, batches, steps, sizes of the model, dropout.

Let n be the number of training windows times the targets that are forecast one at a time: the sequences of an epoch.
Relative to n = 60,000,

    sequences of a batch = 128 · (n / 60,000)^½        steps = max(300, 1,000 · (n / 60,000)^0.3)

Epochs, warm-up and validations follow from the steps; validations have about 400 windows, evenly distributed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.config.tasks.forecasting import ForecastingConfig
from regard.data import ForecastErrors
from regard.tasks.forecasting.baselines import Baselines, baseline_text
from regard.tasks.forecasting.reading import SeriesData, suggested_sizes
from regard.tasks.open_keys import OpenKeys, step_warnings, two_digits

REFERENCE = 60_000
BATCH, BATCH_GROWTH, SMALLEST_BATCH, LARGEST_BATCH = 128, 0.5, 4, 256
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 1_000, 0.3, 300
SIZE, LARGE, LARGE_SIZE = 64, 1_000_000, 128
DROPOUT, SMALL, SMALL_DROPOUT = 0.1, 10_000, 0.2
"""Dropout, the number of rows below which there is more of it, and how much."""
VALIDATION_WINDOWS = 400
WARMUP, VALIDATIONS = 0.05, 20


@dataclass(frozen=True, slots=True)
class ResolvedForecasting:
    """A configuration in which no key is open, and the figures it follows from.

    Args:
        open: the values that follow from the data.
        num_windows: the number of training windows.
        steps_per_epoch: optimiser steps per epoch.
        baselines: errors on the validation part, by the name of the baseline.
    """

    open: OpenKeys[ForecastingConfig]
    num_windows: int
    steps_per_epoch: int
    baselines: dict[str, ForecastErrors]

    @property
    def config(self) -> ForecastingConfig:
        """The configuration with the chosen values."""
        return self.open.config

    @property
    def steps(self) -> int:
        """The optimiser steps of the whole training, unless it stops early."""
        planned = self.steps_per_epoch * self.config.training.epochs
        return min(planned, self.config.training.max_steps or planned)

    def __str__(self) -> str:
        data, training = self.config.data, self.config.training
        lines = [
            f"plan: {self.num_windows:,} windows of {data.history:,} steps of history and {data.horizon:,} of the "
            f"horizon; {self.steps_per_epoch:,} steps per epoch, of {training.batch_windows:,} windows; "
            f"{training.epochs:,} epochs: {self.steps:,} steps"
        ]
        lines += [shown] if (shown := str(self.open)) else []
        lines.append("without a network, on the validation part: " + baseline_text(self.baselines))
        return "\n".join([*lines, *step_warnings(training, self.steps, "training.batch_windows", few=LEAST_STEPS // 2)])


def with_sizes(config: ForecastingConfig, material: SeriesData) -> OpenKeys[ForecastingConfig]:
    """The configuration with the sizes of its windows."""
    open_ = OpenKeys(config)
    history, horizon = suggested_sizes(material.table, material.split)
    open_.choose("data.history", history)
    open_.choose("data.horizon", horizon)
    return open_


def resolve(config: ForecastingConfig, material: SeriesData) -> ResolvedForecasting:
    """Chooses values for the keys that the configuration leaves open."""
    open_ = with_sizes(config, material)
    choose, data = open_.choose, open_.config.data
    windows = len(material.training_windows(data))
    held_out = len(material.validation_windows(data, stride=1))
    choose("data.dev_stride", math.ceil(held_out / VALIDATION_WINDOWS))
    channels = len(material.table.target_names) if config.model.channels == "separate" else 1
    size = windows * channels / REFERENCE
    for part in ("encoder", "decoder"):
        choose(f"model.{part}.size", SIZE if windows * channels < LARGE else LARGE_SIZE)
        choose(f"model.{part}.dropout", DROPOUT if windows * channels >= SMALL else SMALL_DROPOUT)
    sequences = BATCH * size**BATCH_GROWTH
    batch = two_digits(min(max(sequences / channels, SMALLEST_BATCH), LARGEST_BATCH))
    batch = choose("training.batch_windows", batch)
    steps_per_epoch = math.ceil(math.ceil(windows / batch) / config.training.accumulation)
    goal = max(BASE_STEPS * size**STEPS_GROWTH, LEAST_STEPS)
    epochs = choose("training.epochs", max(1, round(goal / steps_per_epoch)))
    steps = min(steps_per_epoch * epochs, config.training.max_steps or steps_per_epoch * epochs)
    choose("training.warmup_steps", round(WARMUP * steps))
    choose("training.validate_every", max(1, round(steps / VALIDATIONS)))
    resolved = open_.config
    baselines = Baselines.fit(resolved, material).errors(material.validation_windows(resolved.data))
    return ResolvedForecasting(open_, windows, steps_per_epoch, baselines)
