"""Defaults that follow from the size of the text: batches, steps, sizes of the model, dropout.

Let n be the number of tokens of the training text. Relative to a text of 100,000 tokens,

    batch_size = 8 · (n / 100,000)^½        steps = max(1,000, 1,500 · (n / 100,000)^0.37)

Epochs, warm-up and validations follow from the steps. Dropout falls by 0.1 for ten times as many tokens, and models of
large texts are wider. `docs/log.md` has the experiments behind the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from regard.config.tasks.language_modelling import LanguageModellingConfig, RecurrentLanguageConfig
from regard.tasks.language_modelling.build import parts_of
from regard.tasks.open_keys import OpenKeys, adopted, open_keys, step_warnings, two_digits

REFERENCE = 100_000
"""Tokens of the text that the numbers are relative to, called the reference."""
BATCH_SIZE, BATCH_GROWTH, MOST_BATCH = 8, 0.5, 256
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 1_500, 0.37, 1_000
WARMUP = 0.05
"""The share of the steps in which the learning rate rises."""
VALIDATIONS = 15
DROPOUT, DROPOUT_DECAY, MOST_DROPOUT = 0.2, 0.1, 0.4
"""Dropout at the reference, its decrease for ten times as many tokens, and its upper end."""
SIZES = ((0, 128), (2_000_000, 256), (20_000_000, 512))
"""The size of a Transformer, by the number of tokens from which on it is chosen; a recurrent model's is twice that."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration in which no key is open, and the figures it follows from.

    Args:
        open: the values that follow from the text.
        num_tokens: the number of training tokens.
        steps_per_epoch: optimiser steps per epoch.
    """

    open: OpenKeys[LanguageModellingConfig]
    num_tokens: int
    steps_per_epoch: int

    @property
    def config(self) -> LanguageModellingConfig:
        """The configuration with the chosen values."""
        return self.open.config

    @property
    def steps(self) -> int:
        """The optimiser steps of the whole training, unless it stops early."""
        planned = self.steps_per_epoch * self.config.training.epochs
        return min(planned, self.config.training.max_steps or planned)

    def __str__(self) -> str:
        training = self.config.training
        accumulated = f" × {training.accumulation} batches" if training.accumulation > 1 else ""
        lines = [
            f"plan: {self.num_tokens:,} tokens; {self.steps_per_epoch:,} steps per epoch, of up to "
            f"{training.batch_size:,} windows of {training.window:,} tokens{accumulated}; {training.epochs:,} epochs: "
            f"{self.steps:,} steps"
        ]
        lines += [shown] if (shown := str(self.open)) else []
        return "\n".join([*lines, *step_warnings(training, self.steps, "training.batch_size")])


def resolve(
    config: LanguageModellingConfig, num_tokens: int, *, chosen: Mapping[str, float] = MappingProxyType({})
) -> Resolved:
    """Chooses values for the keys that the configuration leaves open.

    Args:
        config: the configuration as it was read: a key is set if the file, the preset or an override has it.
        num_tokens: of the training text.
        chosen: values that were chosen before, by dotted key.
    """
    growth = max(num_tokens, 1) / REFERENCE
    open_ = OpenKeys(config, dict(chosen))
    choose = open_.choose
    size = next(size for least, size in reversed(SIZES) if num_tokens >= least)
    if isinstance(config.model, RecurrentLanguageConfig):
        size = 2 * size // (parts := parts_of(config.model)) * parts
    else:
        size = size // (2 * config.model.heads) * 2 * config.model.heads
    choose("model.size", max(size, 1))
    dropout = min(max(DROPOUT - DROPOUT_DECAY * math.log10(growth), 0.0), MOST_DROPOUT)
    choose("model.dropout", round(20 * dropout) / 20)
    batch_size = choose("training.batch_size", min(max(two_digits(BATCH_SIZE * growth**BATCH_GROWTH), 4), MOST_BATCH))
    training = config.training
    length = training.window + 1 - training.context
    windows = math.ceil(num_tokens / length)
    steps_per_epoch = max(1, math.ceil(math.ceil(windows / batch_size) / training.accumulation))
    goal = max(BASE_STEPS * growth**STEPS_GROWTH, LEAST_STEPS)
    epochs = choose("training.epochs", max(1, round(goal / steps_per_epoch)))
    steps = min(steps_per_epoch * epochs, training.max_steps or steps_per_epoch * epochs)
    choose("training.warmup_steps", round(WARMUP * steps))
    choose("training.validate_every", max(1, round(steps / VALIDATIONS)))
    return Resolved(open_, num_tokens, steps_per_epoch)


def adopt(config: LanguageModellingConfig, resolved: LanguageModellingConfig) -> LanguageModellingConfig:
    """A configuration whose open keys have the values that a former run resolved them to."""
    paths = open_keys(config)
    if config.data.dev is None and config.data.dev_fraction is None:
        paths.append(("data", "dev_fraction"))
    return adopted(config, resolved, paths)
