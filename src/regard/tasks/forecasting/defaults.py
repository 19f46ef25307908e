"""Defaults that follow from the data: windows, batches, steps, sizes of the model, dropout.

Let n be the number of sequences of an epoch: training windows times the targets that are forecast one at a time. With
n = 60,000 as the reference,

    sequences of a batch = 128 · (n / 60,000)^½        steps = max(300, 1,000 · (n / 60,000)^0.3)

Points are teacher-forced, and quantiles run freely. Epochs, warm-up and validations follow from the steps; validations
have about 400 windows, evenly distributed.
"""

from __future__ import annotations

import math

from regard.data.series.checks import counted_targets
from regard.errors import counted
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.plan import Plan, choose_steps
from regard.tasks.forecasting.baselines import Baselines, baseline_text
from regard.tasks.forecasting.config import ForecastingConfig
from regard.tasks.forecasting.reading import SeriesData, suggested_sizes

REFERENCE = 60_000
BATCH, BATCH_GROWTH, SMALLEST_BATCH, LARGEST_BATCH = 128, 0.5, 4, 256
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 1_000, 0.3, 300
SIZE, LARGE, LARGE_SIZE = 64, 1_000_000, 128
DROPOUT, SMALL, SMALL_DROPOUT = 0.1, 10_000, 0.2
"""Dropout, the number of sequences below which it is larger, and the larger value."""
VALIDATION_WINDOWS = 400
VALIDATIONS = 20
VALIDATED = 0.6
"""The time of a window's validation relative to its training (measured: 0.62)."""


def with_sizes(config: ForecastingConfig, material: SeriesData) -> AutomaticSettings[ForecastingConfig]:
    """The configuration with the sizes of its windows."""
    keys = AutomaticSettings(config)
    history, horizon = suggested_sizes(material.table, material.split)
    keys.choose("data.history", history)
    keys.choose("data.horizon", horizon)
    if counts := counted_targets(material.table):
        is_all = len(counts) == len(material.table.target_names)
        keys.choose("data.minimum", 0.0 if is_all else counts)
    return keys


def resolve(config: ForecastingConfig, material: SeriesData) -> Plan[ForecastingConfig]:
    """Chooses values for the keys that the configuration leaves open."""
    keys = with_sizes(config, material)
    choose, data = keys.choose, keys.config.data
    windows = len(material.training_windows(data))
    held_out = len(material.validation_windows(data, stride=1))
    stride = choose("data.dev_stride", math.ceil(held_out / VALIDATION_WINDOWS))
    channels = len(material.table.target_names) if config.model.channels == "separate" else 1
    sequences = windows * channels
    size = sequences / REFERENCE
    for part in ("encoder", "decoder"):
        choose(f"model.{part}.size", SIZE if sequences < LARGE else LARGE_SIZE)
        choose(f"model.{part}.dropout", DROPOUT if sequences >= SMALL else SMALL_DROPOUT)
    rows = min(max(BATCH * size**BATCH_GROWTH / channels, SMALLEST_BATCH), LARGEST_BATCH)
    batch = choose("training.batch_windows", two_digits(rows))
    choose("training.sequence_teacher_forcing", 1.0 if config.model.quantiles is None else 0.0)
    goal, batches = max(BASE_STEPS * size**STEPS_GROWTH, LEAST_STEPS), math.ceil(windows / batch)
    cost = VALIDATED * held_out / (stride or 1) / max(windows, 1)
    steps_per_epoch = choose_steps(keys, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
    resolved = keys.config
    baselines = Baselines.fit(resolved, material).errors(material.validation_windows(resolved.data))
    steps = f"{counted(resolved.data.history, 'step|steps')} of history and {resolved.data.horizon:,} of the horizon"
    amount = f"{counted(windows, 'window|windows')} of {steps}"
    return Plan(
        keys,
        amount,
        f"of {counted(batch, 'window|windows')}",
        "training.batch_windows",
        steps_per_epoch,
        notes=(f"without a network, on the validation part: {baseline_text(baselines)}",),
        few_steps=LEAST_STEPS // 2,
        validation_cost=cost,
    )
