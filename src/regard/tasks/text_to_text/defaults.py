"""Defaults that follow from the size of the data: batches, steps, sizes of the model, dropout.

Let n be the number of symbols of the training pairs: of the larger side of each, end symbols included. Relative to a
file of some 3,600 words,

    batch_tokens = 256 · (n / 32,000)^½        steps = max(1,200, 2,400 · (n / 32,000)^0.37)

so that the number of steps depends little on the size of the file: 300 words give 1,200 steps, and 100,000 words 8,000.
Epochs, warm-up and validations follow from the steps. Dropout falls by 0.1 for ten times as many symbols, and models of
large files are wider. `docs/log.md` has the experiments behind the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from regard.config.place import KeyPath
from regard.config.tasks.text_to_text import TextToTextConfig
from regard.data import bucket
from regard.data.field import learns_pieces
from regard.tasks.open_keys import OpenKeys, adopted, open_keys, two_digits, value_of
from regard.tasks.plan import Plan, choose_steps, falling_dropout

REFERENCE = 32_000
"""Symbols of the file that the numbers were tuned on, called the reference."""
BATCH_TOKENS, BATCH_GROWTH = 256, 0.5
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 2_400, 0.37, 1_200
VALIDATIONS = 25
DROPOUT, DROPOUT_DECAY, LEAST_DROPOUT, MOST_DROPOUT = 0.4, 0.1, 0.1, 0.5
"""Dropout at the reference, its decrease for ten times as many symbols, and its range."""
SIZE, LARGE, LARGE_SIZE = 256, 4_000_000, 512
"""The size of encoder and decoder, and the number of symbols from which on it is LARGE_SIZE."""
PIECES: tuple[KeyPath, ...] = (("data", "source", "vocabulary_size"), ("data", "target", "vocabulary_size"))
"""Keys that follow from the texts if they are null and pieces are learned (`regard.data.pieces`)."""


def resolve(
    config: TextToTextConfig,
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    *,
    chosen: Mapping[str, float] = MappingProxyType({}),
) -> Plan[TextToTextConfig]:
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
    dropout = falling_dropout(size, at_one=DROPOUT, decay=DROPOUT_DECAY, least=LEAST_DROPOUT, most=MOST_DROPOUT)
    open_ = OpenKeys(config, dict(chosen))
    for part in ("encoder", "decoder"):
        open_.choose(f"model.{part}.size", SIZE if num_symbols < LARGE else LARGE_SIZE)
        open_.choose(f"model.{part}.dropout", dropout)
    batch_tokens = open_.choose("training.batch_tokens", two_digits(BATCH_TOKENS * size**BATCH_GROWTH))
    batches = len(bucket(source, target, batch_tokens=batch_tokens, seed=config.seed, epoch=0))
    goal = max(BASE_STEPS * size**STEPS_GROWTH, LEAST_STEPS)
    steps_per_epoch = choose_steps(open_, batches=batches, steps=goal, validations=VALIDATIONS)
    amount = f"{int(kept.sum()):,} pairs, {num_symbols:,} symbols"
    return Plan(open_, amount, f"of up to {batch_tokens:,} symbols", "training.batch_tokens", steps_per_epoch)


def adopt(config: TextToTextConfig, resolved: TextToTextConfig) -> TextToTextConfig:
    """A configuration whose open keys have the values that a former run resolved them to."""
    paths = open_keys(config)
    paths += [path for path in PIECES if value_of(config, path) is None and learns_pieces(value_of(config, path[:-1]))]
    if config.data.dev is None and config.data.dev_fraction is None:
        paths.append(("data", "dev_fraction"))
    return adopted(config, resolved, paths)
