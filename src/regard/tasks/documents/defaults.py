"""Defaults that follow from the size of the data: batches, steps and dropout.

Let n be the number of words of the training documents. With a collection of some 5,000 short reports as the reference,

    batch_words = 3,000 · (n / 500,000)^½        steps = max(1,000, 1,600 · (n / 500,000)^0.4)

so that 300 short texts give 1,000 steps, and 100,000 documents of 200 words 7,000. Warm-up and validations follow from
the steps. Dropout falls by 0.1 for ten times as many words. `docs/log.md` has the experiments behind the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from regard.data import bucket
from regard.errors import counted
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.plan import Plan, choose_steps, falling_dropout
from regard.tasks.documents.config import DocumentsConfig

REFERENCE = 500_000
"""Words of the collection on which the numbers were tuned, the reference."""
BATCH_WORDS, BATCH_GROWTH = 3_000, 0.5
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 1_600, 0.4, 1_000
VALIDATIONS = 20
VALIDATED = 0.5
"""The time of a document's validation relative to its training (measured: 0.48)."""
DROPOUT, DROPOUT_DECAY, LEAST_DROPOUT, MOST_DROPOUT = 0.4, 0.1, 0.2, 0.5
"""Dropout at the reference, its decrease for ten times as many words, and its range."""


def resolve(
    config: DocumentsConfig,
    words: NDArray[np.int64],
    sentences: NDArray[np.int64],
    *,
    held_out: int = 0,
    chosen: Mapping[str, float] = MappingProxyType({}),
) -> Plan[DocumentsConfig]:
    """Chooses values for the keys that the configuration leaves open.

    Args:
        words, sentences: (documents,) of the training documents; those without words do not count.
        held_out: the number of held-out documents.
    """
    kept = words > 0
    words, sentences = words[kept], sentences[kept]
    num_words = int(words.sum())
    size = max(num_words, 1) / REFERENCE
    dropout = falling_dropout(size, at_one=DROPOUT, decay=DROPOUT_DECAY, least=LEAST_DROPOUT, most=MOST_DROPOUT)
    open_ = AutomaticSettings(config, dict(chosen))
    open_.choose("model.dropout", dropout)
    batch_words = open_.choose("training.batch_words", two_digits(BATCH_WORDS * size**BATCH_GROWTH))
    batches = len(bucket(words, sentences, batch_tokens=batch_words, seed=config.seed, epoch=0))
    goal = max(BASE_STEPS * size**STEPS_GROWTH, LEAST_STEPS)
    cost = VALIDATED * held_out / max(len(words), 1)
    steps_per_epoch = choose_steps(open_, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
    amount = f"{counted(int(kept.sum()), 'document|documents')}, {counted(num_words, 'word|words')}"
    batch = f"of up to {counted(batch_words, 'word|words')}"
    return Plan(open_, amount, batch, "training.batch_words", steps_per_epoch, validation_cost=cost)
