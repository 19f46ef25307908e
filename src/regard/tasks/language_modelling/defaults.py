"""Defaults that follow from the size of the text: batches, steps, sizes of the model, dropout.

Let n be the number of tokens of the training text. Relative to a text of 100,000 tokens,

    batch_size = 8 · (n / 100,000)^½        steps = max(1,000, 1,500 · (n / 100,000)^0.37)

Epochs, warm-up and validations follow from the steps. Dropout falls by 0.1 for ten times as many tokens, and models of
large texts are wider. The growth with the size of the text is that of text to text; the numbers have not been tuned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from regard.errors import counted
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.plan import Plan, choose_steps, falling_dropout
from regard.tasks.language_modelling.build import parts_of
from regard.tasks.language_modelling.config import LanguageModellingConfig, RecurrentLanguageConfig

REFERENCE = 100_000
"""Tokens of the text that the numbers are relative to, called the reference."""
BATCH_SIZE, BATCH_GROWTH, MOST_BATCH = 8, 0.5, 256
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 1_500, 0.37, 1_000
VALIDATIONS = 15
VALIDATED = 0.5
"""The time in which a token is validated in that in which it is trained on (measured: 0.47)."""
DROPOUT, DROPOUT_DECAY, MOST_DROPOUT = 0.2, 0.1, 0.4
"""Dropout at the reference, its decrease for ten times as many tokens, and its upper end."""
SIZES = ((0, 128), (2_000_000, 256), (20_000_000, 512))
"""The size of a Transformer, by the number of tokens from which on it is chosen; a recurrent model's is twice that."""


def resolve(
    config: LanguageModellingConfig,
    num_tokens: int,
    *,
    held_out: int = 0,
    chosen: Mapping[str, float] = MappingProxyType({}),
) -> Plan[LanguageModellingConfig]:
    """Chooses values for the keys that the configuration leaves open."""
    growth = max(num_tokens, 1) / REFERENCE
    open_ = AutomaticSettings(config, dict(chosen))
    choose = open_.choose
    size = next(size for least, size in reversed(SIZES) if num_tokens >= least)
    if isinstance(config.model, RecurrentLanguageConfig):
        size = 2 * size // (parts := parts_of(config.model)) * parts
    else:
        size = size // (2 * config.model.heads) * 2 * config.model.heads
    choose("model.size", max(size, 1))
    choose("model.dropout", falling_dropout(growth, at_one=DROPOUT, decay=DROPOUT_DECAY, least=0.0, most=MOST_DROPOUT))
    batch_size = choose("training.batch_size", min(max(two_digits(BATCH_SIZE * growth**BATCH_GROWTH), 4), MOST_BATCH))
    training = config.training
    windows = math.ceil(num_tokens / (training.window + 1 - training.context))
    goal = max(BASE_STEPS * growth**STEPS_GROWTH, LEAST_STEPS)
    batches = math.ceil(windows / batch_size)
    cost = VALIDATED * held_out / max(num_tokens, 1)
    steps_per_epoch = choose_steps(open_, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
    batch = f"of up to {counted(batch_size, 'window|windows')} of {counted(training.window, 'token|tokens')}"
    amount = f"{counted(num_tokens, 'token|tokens')}"
    return Plan(open_, amount, batch, "training.batch_size", steps_per_epoch, validation_cost=cost)
