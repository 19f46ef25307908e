"""Defaults that follow from the size of the data: batches, steps, sizes of the model, dropout.

Let n be the number of symbols of the training pairs: of the larger side of each, end symbols included. Relative to a
file of some 3,600 words,

    batch_tokens = 256 · (n / 32,000)^½        steps = max(1,200, 2,400 · (n / 32,000)^0.37)

so that the number of steps depends little on the size of the file: 300 words give 1,200 steps, and 100,000 words 8,000.
Epochs, warm-up and validations follow from the steps. Dropout falls by 0.1 for ten times as many symbols, and models of
large files are wider. `docs/log.md` has the experiments behind the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config.keys import keys
from regard.config.place import KeyPath, dotted
from regard.config.schema import Section
from regard.config.tasks.text_to_text import TextToTextConfig
from regard.data import bucket
from regard.data.field import learns_pieces

REFERENCE = 32_000
"""Symbols of the file that the numbers were tuned on, called the reference."""
BATCH_TOKENS, BATCH_GROWTH = 256, 0.5
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 2_400, 0.37, 1_200
WARMUP = 0.05
"""The share of the steps in which the learning rate rises."""
VALIDATIONS = 25
DROPOUT, DROPOUT_DECAY, LEAST_DROPOUT, MOST_DROPOUT = 0.4, 0.1, 0.1, 0.5
"""Dropout at the reference, its decrease for ten times as many symbols, and its range."""
SIZE, LARGE, LARGE_SIZE = 256, 4_000_000, 512
"""The size of encoder and decoder, and the number of symbols from which on it is LARGE_SIZE."""
PIECES: tuple[KeyPath, ...] = (("data", "source", "vocabulary_size"), ("data", "target", "vocabulary_size"))
"""Keys that follow from the texts if they are null and pieces are learned (`regard.data.pieces`)."""
FEW_STEPS = 1_000
"""With fewer optimiser steps most models stay untrained."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration in which no key is open, and the figures it follows from.

    Args:
        config: the configuration.
        num_pairs: the number of training pairs.
        num_symbols: the number of symbols of their larger sides.
        steps_per_epoch: optimiser steps per epoch.
        chosen: the values that follow from the data, by dotted key.
    """

    config: TextToTextConfig
    num_pairs: int
    num_symbols: int
    steps_per_epoch: int
    chosen: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """The optimiser steps of the whole training, unless it stops early."""
        planned = self.steps_per_epoch * self.config.training.epochs
        return min(planned, self.config.training.max_steps or planned)

    @property
    def warnings(self) -> list[str]:
        """Warnings about settings with which the training will probably fail."""
        training, lines = self.config.training, []
        if self.steps < FEW_STEPS:
            lines.append(
                f"warning: {self.steps:,} steps are few; most models need {FEW_STEPS:,} or more. Lower "
                "training.batch_tokens or raise training.epochs; if they are left out, both follow from the data"
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
            f"plan: {self.num_pairs:,} pairs, {self.num_symbols:,} symbols; {self.steps_per_epoch:,} steps per epoch, "
            f"of up to {training.batch_tokens:,} symbols{accumulated}; {training.epochs:,} epochs: {self.steps:,} steps"
        ]
        if self.chosen:
            values = ", ".join(f"{key}={value:g}" for key, value in self.chosen.items())
            lines.append(f"plan: chosen for data of this size, because the configuration leaves it open: {values}")
        return "\n".join([*lines, *self.warnings])


def resolve(
    config: TextToTextConfig,
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    *,
    chosen: Mapping[str, float] = MappingProxyType({}),
) -> Resolved:
    """Chooses values for the keys that the configuration leaves open.

    Args:
        config: the configuration as it was read: a key is set if the file, the preset or an override has it.
        source_lengths, target_lengths: (pairs,) symbols of the training pairs; those that training leaves out (longer
            than `data.max_length`, or with an empty side) do not count.
        chosen: values that were chosen before, by dotted key (`TrainingData.chosen`).
    """
    kept = (np.maximum(source_lengths, target_lengths) <= config.data.max_length) & (
        np.minimum(source_lengths, target_lengths) > 0
    )
    source, target = source_lengths[kept] + 1, target_lengths[kept] + 1
    num_symbols = int(np.maximum(source, target).sum())
    size = max(num_symbols, 1) / REFERENCE
    dropout = min(max(DROPOUT - DROPOUT_DECAY * math.log10(size), LEAST_DROPOUT), MOST_DROPOUT)
    values: dict[str, Any] = dict(chosen)

    def choose(key: str, value: Any) -> Any:
        """The value of the configuration if it sets the key, else this value."""
        path = tuple(key.split("."))
        if is_set(config, path):
            return _value(config, path)
        values[key] = value
        return value

    for part in ("encoder", "decoder"):
        choose(f"model.{part}.size", SIZE if num_symbols < LARGE else LARGE_SIZE)
        choose(f"model.{part}.dropout", round(20 * dropout) / 20)
    batch_tokens = choose("training.batch_tokens", _rounded(BATCH_TOKENS * size**BATCH_GROWTH))
    batches = len(bucket(source, target, batch_tokens=batch_tokens, seed=config.seed, epoch=0))
    steps_per_epoch = max(1, -(-batches // config.training.accumulation))
    goal = max(BASE_STEPS * size**STEPS_GROWTH, LEAST_STEPS)
    epochs = choose("training.epochs", max(1, round(goal / steps_per_epoch)))
    steps = min(steps_per_epoch * epochs, config.training.max_steps or steps_per_epoch * epochs)
    choose("training.warmup_steps", round(WARMUP * steps))
    choose("training.validate_every", max(1, round(steps / VALIDATIONS)))
    return Resolved(_with(config, values), int(kept.sum()), num_symbols, steps_per_epoch, values)


def adopt(config: TextToTextConfig, resolved: TextToTextConfig) -> TextToTextConfig:
    """A configuration whose open keys have the values that a former run resolved them to."""
    paths: list[KeyPath] = [
        key.path
        for key in keys(type(config), config.model_dump()).values()
        if key.follows_from_data and not is_set(config, key.path)
    ]
    paths += [path for path in PIECES if _value(config, path) is None and learns_pieces(_value(config, path[:-1]))]
    if config.data.dev is None and config.data.dev_fraction is None:
        paths.append(("data", "dev_fraction"))
    return _with(config, {dotted(path): _value(resolved, path) for path in paths})


def is_set(config: Section, path: KeyPath) -> bool:
    """Whether the file, the preset or an override has the key, so that its value is not the default."""
    section: Any = config
    for name in path:
        if not isinstance(section, Section) or name not in section.model_fields_set:
            return False
        section = getattr(section, str(name))
    return True


def _value(config: Section, path: KeyPath) -> Any:
    value: Any = config
    for name in path:
        value = getattr(value, str(name))
    return value


def _with(section: Any, values: Mapping[str, Any]) -> Any:
    """A copy of a section with some values replaced, by dotted key."""
    if not values:
        return section
    changed: dict[str, Any] = {}
    for name in dict.fromkeys(key.partition(".")[0] for key in values):
        inner = {key.partition(".")[2]: value for key, value in values.items() if key.partition(".")[0] == name}
        changed[name] = inner[""] if "" in inner else _with(getattr(section, name), inner)
    return section.model_copy(update=changed)


def _rounded(value: float) -> int:
    """A number with two significant digits, so that slightly more data does not change every number."""
    return int(float(f"{value:.2g}"))
