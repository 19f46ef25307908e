"""Defaults that follow from the size of the data: batches, steps and dropout.

Let n be the number of words of the training documents. Relative to a collection of some 5,000 short reports,

    batch_words = 3,000 · (n / 500,000)^½        steps = max(1,000, 1,600 · (n / 500,000)^0.4)

so that 300 short texts make 1,000 steps, and 100,000 documents of 200 words 7,000. Warm-up and validations follow from
the steps. Dropout falls by 0.1 for ten times as many words. `docs/log.md` has the experiments behind the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from regard.config.tasks.documents import DocumentsConfig
from regard.data import bucket
from regard.tasks.open_keys import OpenKeys, adopted, open_keys, step_warnings, two_digits

REFERENCE = 500_000
"""Words of the collection that the numbers were tuned on, called the reference."""
BATCH_WORDS, BATCH_GROWTH = 3_000, 0.5
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 1_600, 0.4, 1_000
WARMUP = 0.05
"""The share of the steps in which the learning rate rises."""
VALIDATIONS = 20
DROPOUT, DROPOUT_DECAY, LEAST_DROPOUT, MOST_DROPOUT = 0.4, 0.1, 0.2, 0.5
"""Dropout at the reference, its decrease for ten times as many words, and its range."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration in which no key is open, and the figures it follows from.

    Args:
        open: the values that follow from the data.
        num_documents, num_words: of the training documents that have words.
        steps_per_epoch: optimiser steps per epoch.
    """

    open: OpenKeys[DocumentsConfig]
    num_documents: int
    num_words: int
    steps_per_epoch: int

    @property
    def config(self) -> DocumentsConfig:
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
            f"plan: {self.num_documents:,} documents, {self.num_words:,} words; {self.steps_per_epoch:,} steps per "
            f"epoch, of up to {training.batch_words:,} words{accumulated}; {training.epochs:,} epochs: "
            f"{self.steps:,} steps"
        ]
        lines += [shown] if (shown := str(self.open)) else []
        return "\n".join([*lines, *step_warnings(training, self.steps, "training.batch_words")])


def resolve(
    config: DocumentsConfig,
    words: NDArray[np.int64],
    sentences: NDArray[np.int64],
    *,
    chosen: Mapping[str, float] = MappingProxyType({}),
) -> Resolved:
    """Chooses values for the keys that the configuration leaves open.

    Args:
        config: the configuration as it was read: a key is set if the file, the preset or an override has it.
        words, sentences: (documents,) of the training documents; those without words do not count.
        chosen: values that were chosen before, by dotted key (`TrainingData.chosen`).
    """
    kept = words > 0
    words, sentences = words[kept], sentences[kept]
    num_words = int(words.sum())
    size = max(num_words, 1) / REFERENCE
    dropout = min(max(DROPOUT - DROPOUT_DECAY * math.log10(size), LEAST_DROPOUT), MOST_DROPOUT)
    open_ = OpenKeys(config, dict(chosen))
    choose = open_.choose
    choose("model.dropout", round(20 * dropout) / 20)
    batch_words = choose("training.batch_words", two_digits(BATCH_WORDS * size**BATCH_GROWTH))
    batches = len(bucket(words, sentences, batch_tokens=batch_words, seed=config.seed, epoch=0))
    steps_per_epoch = max(1, -(-batches // config.training.accumulation))
    goal = max(BASE_STEPS * size**STEPS_GROWTH, LEAST_STEPS)
    epochs = choose("training.epochs", max(1, round(goal / steps_per_epoch)))
    steps = min(steps_per_epoch * epochs, config.training.max_steps or steps_per_epoch * epochs)
    choose("training.warmup_steps", round(WARMUP * steps))
    choose("training.validate_every", max(1, round(steps / VALIDATIONS)))
    return Resolved(open_, int(kept.sum()), num_words, steps_per_epoch)


def adopt(config: DocumentsConfig, resolved: DocumentsConfig) -> DocumentsConfig:
    """A configuration whose open keys have the values that a former run resolved them to."""
    paths = open_keys(config)
    if config.data.dev is None and config.data.dev_fraction is None:
        paths.append(("data", "dev_fraction"))
    return adopted(config, resolved, paths)
