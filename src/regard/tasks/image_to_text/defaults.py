"""Defaults that follow from the size of the data: batches, steps, the sizes of the model, dropout.

Let n be the number of training texts. Relative to some 9,000 handwritten formulas,

    pictures in a batch = 16 · (n / 9,000)^¼, of 8 to 64        steps = max(3,000, 20,000 · (n / 9,000)^0.4)

so that 300 pictures give 5,000 steps of 8, and 300,000 give 80,000 of 38. Epochs, warm-up and validations follow from
the steps. Dropout falls by 0.1 for ten times as many texts, and decoders of many texts are wider.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config.texts import TransformerDecoderConfig
from regard.errors import counted
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.plan import Plan, choose_steps, falling_dropout
from regard.tasks.image_to_text.batches import bucket_pictures
from regard.tasks.image_to_text.config import ImageToTextConfig

REFERENCE = 9_000
"""Texts of the data that the numbers are relative to."""
PICTURES, LEAST_PICTURES, MOST_PICTURES = 16, 8, 64
STEPS, STEPS_GROWTH, LEAST_STEPS = 20_000, 0.4, 3_000
VALIDATIONS = 25
VALIDATED = 2.0
"""The time in which a picture is validated, greedily, in that in which it is trained on (measured: 1.5 to 2.6)."""
LARGE = 100_000
"""Texts from which on decoders are larger."""
ROOM, EXTRA_SYMBOLS = 1.2, 10
"""Outputs may be so many times as long as the longest training text, and have some symbols more."""


def resolve(
    config: ImageToTextConfig,
    shapes: NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    held_out: int = 0,
    chosen: Mapping[str, Any] = MappingProxyType({}),
) -> Plan[ImageToTextConfig]:
    """Chooses values for the keys that the configuration leaves open.

    Args:
        shapes: (texts, 2) height and width of the picture of each training text.
        lengths: (texts,) symbols of each.
        held_out: the number of held-out pictures that are validated.
    """
    count = len(lengths)
    growth = max(count, 1) / REFERENCE
    open_ = AutomaticSettings(config, dict(chosen))
    decoder = config.model.decoder
    is_transformer = isinstance(decoder, TransformerDecoderConfig)
    open_.choose("model.encoder.dropout", falling_dropout(growth, at_one=0.2, decay=0.1, least=0.1, most=0.3))
    open_.choose("model.decoder.dropout", falling_dropout(growth, at_one=0.3, decay=0.1, least=0.1, most=0.4))
    if isinstance(decoder, TransformerDecoderConfig):
        heads = 2 * decoder.heads
        open_.choose("model.decoder.size", max((512 if count >= LARGE else 256) // heads, 1) * heads)
        open_.choose("model.decoder.layers", 6 if count >= LARGE else 3)
    else:
        open_.choose("model.decoder.size", 512 if count >= LARGE else 256)
    if config.training.schedule != "noam":
        open_.choose("training.learning_rate", 0.0005 if is_transformer else 0.001)
    open_.choose("decoding.max_length", int(ROOM * lengths.max(initial=1)) + EXTRA_SYMBOLS)
    pictures = min(max(PICTURES * growth**0.25, LEAST_PICTURES), MOST_PICTURES)
    mean = float(shapes.prod(1).mean()) if count else 1.0
    pixels = open_.choose("training.batch_pixels", two_digits(max(pictures * mean, 1)))
    batches = len(bucket_pictures(shapes, batch_pixels=pixels, seed=config.seed, epoch=0))
    goal = max(STEPS * growth**STEPS_GROWTH, LEAST_STEPS)
    cost = VALIDATED * config.decoding.validation_beam * held_out / max(count, 1)
    steps_per_epoch = choose_steps(open_, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
    amount = f"{counted(count, 'text|texts')}, {counted(int(lengths.sum()) + count, 'symbol|symbols')}"
    batch = f"of up to {pixels:,} pixels"
    return Plan(open_, amount, batch, "training.batch_pixels", steps_per_epoch, validation_cost=cost)
