"""Defaults that follow from the size of the data: batches, steps, sizes of the model, dropout.

Let n be the number of symbols of the training pairs: of the longer side of each, end symbols included. With a file of
some 3,600 words as the reference,

    batch_tokens = 256 · (n / 32,000)^½        steps = max(1,200, 2,400 · (n / 32,000)^0.37)

so that the number of steps grows slowly: 300 words give 1,200 steps, and 100,000 words 8,000. Epochs, warm-up and
validations follow from the steps. Dropout falls by 0.1 for ten times as many symbols, and models of large files are
wider. `docs/log.md` has the experiments behind the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config.texts import TransformerSideConfig
from regard.data import bucket
from regard.data.sizes import Sizes
from regard.errors import counted
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.plan import Plan, choose_steps, falling_dropout
from regard.tasks.text_to_text.config import TextToTextConfig

REFERENCE = 32_000
"""Symbols of the file on which the numbers were tuned, the reference."""
VALIDATIONS = 25
VALIDATED = 0.8
"""The time of a pair's greedy validation relative to its training (measured: 0.79 and 0.82)."""
MOST_BUCKETED = 1_000_000
"""The most pairs that are put into batches to count these."""
LARGE = 4_000_000
"""Symbols from which on models are largest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """The size of a model for files from a number of symbols on.

    Args:
        symbols: the number.
        size: of encoder and decoder.
        layers: of encoder and decoder, if they are Transformers.
        learning_rate: the rate after warm-up; None for the default of the key.
    """

    symbols: int = 0
    size: int
    layers: int = 1
    learning_rate: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbers:
    """The numbers of the training of an architecture.

    Args:
        shapes: of models, in the order of file sizes.
        batch_tokens, batch_growth, least_batch_tokens: symbols of a batch at the reference, the exponent of their
            growth, the fewest.
        steps, steps_growth, least_steps: optimiser steps at the reference, the exponent of their growth, the fewest.
        dropout, decay, least_dropout, most_dropout: dropout at the reference, its decrease for ten times as many
            symbols, and its range.
    """

    shapes: tuple[Shape, ...]
    batch_tokens: int
    batch_growth: float = 0.5
    least_batch_tokens: int = 1
    steps: int
    steps_growth: float = 0.37
    least_steps: int
    dropout: float
    decay: float = 0.1
    least_dropout: float = 0.1
    most_dropout: float

    def shape(self, num_symbols: int) -> Shape:
        """The shape of a model for a file."""
        return [shape for shape in self.shapes if shape.symbols <= num_symbols][-1]


RECURRENT = Numbers(
    shapes=(Shape(size=256), Shape(symbols=LARGE, size=512)),
    batch_tokens=256,
    steps=2_400,
    least_steps=1_200,
    dropout=0.4,
    most_dropout=0.5,
)
"""For recurrent decoders."""
TRANSFORMER = Numbers(
    shapes=(
        Shape(size=128, layers=2, learning_rate=0.002),
        Shape(symbols=300_000, size=256, layers=3, learning_rate=0.001),
        Shape(symbols=LARGE, size=512, layers=6, learning_rate=0.0007),
    ),
    batch_tokens=150,
    least_batch_tokens=150,
    steps=4_500,
    least_steps=2_400,
    dropout=0.15,
    most_dropout=0.3,
)
"""For Transformer decoders."""
PIECES_TRANSFORMER = Numbers(
    shapes=(
        Shape(size=128, layers=4, learning_rate=0.003),
        Shape(symbols=1_000_000, size=256, layers=4, learning_rate=0.001),
        Shape(symbols=LARGE, size=512, layers=6, learning_rate=0.0007),
    ),
    batch_tokens=500,
    least_batch_tokens=500,
    steps=5_000,
    least_steps=2_400,
    dropout=0.42,
    most_dropout=0.4,
)
"""For Transformer decoders of pieces of words: those of Multi30k are of Wu et al. 2021."""


def resolve(
    config: TextToTextConfig,
    source_lengths: NDArray[np.integer[Any]],
    target_lengths: NDArray[np.integer[Any]],
    *,
    held_out: int = 0,
    chosen: Mapping[str, float] = MappingProxyType({}),
    growth: float = 1.0,
) -> Plan[TextToTextConfig]:
    """Chooses values for the keys that the configuration leaves open.

    Args:
        source_lengths, target_lengths: (pairs,) symbols of the training pairs; pairs that are longer than
            `data.max_length` or have an empty side do not count.
        growth: the number of pairs of an epoch for each of them.
    """
    used = Sizes.of(source_lengths, target_lengths).within(config.data.max_length)
    num_pairs, num_symbols = len(used), int(((np.maximum(used.source, used.target) + 1) * used.count).sum())
    relative = max(num_symbols, 1) / REFERENCE
    numbers = _numbers(config, config.model.decoder)
    keys = AutomaticSettings(config, dict(chosen))
    for name in ("encoder", "decoder"):
        _choose_size(keys, name, num_symbols)
        limits = {"least": numbers.least_dropout, "most": numbers.most_dropout}
        dropout = falling_dropout(relative, at_one=numbers.dropout, decay=numbers.decay, **limits)
        keys.choose(f"model.{name}.dropout", dropout)
    rate = numbers.shape(num_symbols).learning_rate
    if rate is not None and config.training.schedule != "noam":
        keys.choose("training.learning_rate", rate)
    symbols = max(two_digits(numbers.batch_tokens * relative**numbers.batch_growth), numbers.least_batch_tokens)
    batch_tokens = keys.choose("training.batch_tokens", symbols)
    batches = max(round(growth * _num_batches(config, batch_tokens, source_lengths, target_lengths)), 1)
    goal = max(numbers.steps * relative**numbers.steps_growth, numbers.least_steps)
    cost = VALIDATED * config.decoding.validation_beam * held_out / max(growth * num_pairs, 1)
    steps_per_epoch = choose_steps(keys, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
    amount = f"{counted(num_pairs, 'pair|pairs')}, {counted(num_symbols, 'symbol|symbols')}"
    batch = f"of up to {counted(batch_tokens, 'symbol|symbols')}"
    return Plan(keys, amount, batch, "training.batch_tokens", steps_per_epoch, validation_cost=cost)


def _num_batches(config: TextToTextConfig, batch_tokens: int, *lengths: NDArray[np.integer[Any]]) -> int:
    """The number of batches of an epoch; of many pairs it is computed from an even share of them."""
    every = max(-(-len(lengths[0]) // MOST_BUCKETED), 1)
    source, target = (side[::every].astype(np.int64) for side in lengths)
    used = (np.maximum(source, target) <= config.data.max_length) & (np.minimum(source, target) > 0)
    sides = source[used] + 1, target[used] + 1
    return every * len(bucket(*sides, batch_tokens=batch_tokens, seed=config.seed, epoch=0))


def _numbers(config: TextToTextConfig, side: Any) -> Numbers:
    """The numbers of an encoder or decoder; those of Transformers depend on the units of the outputs."""
    if not isinstance(side, TransformerSideConfig):
        return RECURRENT
    return PIECES_TRANSFORMER if config.data.target.units in ("sentencepiece", ("sentencepiece",)) else TRANSFORMER


def _choose_size(keys: AutomaticSettings[TextToTextConfig], name: str, num_symbols: int) -> None:
    """Chooses the size of encoder or decoder, of a Transformer a multiple of its heads, and its layers."""
    side = getattr(keys.original.model, name)
    shape = _numbers(keys.original, side).shape(num_symbols)
    if not isinstance(side, TransformerSideConfig):
        keys.choose(f"model.{name}.size", shape.size)
        return
    multiple = 2 * side.heads
    keys.choose(f"model.{name}.size", max(shape.size // multiple, 1) * multiple)
    keys.choose(f"model.{name}.layers", shape.layers)
