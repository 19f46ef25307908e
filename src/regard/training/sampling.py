"""What the decoder is fed in training: the gold symbol or its own last output.

Two methods, often confused, under their own names. *Scheduled sampling* (Bengio 2015) throws a coin at every step of
every sequence. *Sequence teacher forcing* throws one coin a sequence, which is then forced or free-running throughout.
All draws come from the given generator and are on its device, or, where layers draw by item, belong to the item.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from regard.config.schema import TrainingConfig
from regard.layers import items
from regard.layers.items import ItemDraws
from regard.shapes import Bool

SCHEDULED_SAMPLING, SEQUENCE_TEACHER_FORCING = 0x5C4ED0, 0x7EAC4E
"""Places of draws by item, which are no modules."""


def scheduled_sampling_probability(step: int, *, probability: float, warmup_steps: int) -> float:
    """The probability of feeding back after `step` optimiser steps: linear from 0 over the warm-up.

    >>> scheduled_sampling_probability(50, probability=0.5, warmup_steps=100)
    0.25
    """
    return probability * min(step / warmup_steps, 1.0) if warmup_steps else probability


def scheduled_sampling_mask(
    rows: int, steps: int, probability: float, generator: Generator, draws: ItemDraws | None = None
) -> Bool[Tensor, "R T"]:
    """True where a decoder is fed its own last output: a coin for every step of every row.

    The first step is False: it is fed the beginning of the sequence, whatever happens.

    Args:
        draws: those of the rows' items, where they are not the generator's.
    """
    if draws is None:
        mask = torch.rand(rows, steps, generator=generator, device=generator.device) < probability
    else:
        mask = draws.chance(steps, probability, SCHEDULED_SAMPLING).to(generator.device)
    mask[:, :1] = False
    return mask


def sequence_teacher_forcing_mask(
    rows: int, probability: float, generator: Generator, draws: ItemDraws | None = None
) -> Bool[Tensor, " R"]:
    """True for the rows that are teacher-forced from beginning to end: a coin for every row.

    Args:
        draws: as in `scheduled_sampling_mask`.
    """
    if draws is None:
        return torch.rand(rows, generator=generator, device=generator.device) < probability
    return draws.chance(1, probability, SEQUENCE_TEACHER_FORCING)[:, 0].to(generator.device)


def feedback_mask(
    config: TrainingConfig, rows: int, steps: int, *, step: int, generator: Generator
) -> Bool[Tensor, "R T"] | None:
    """Where the decoder is fed its own last output under a configuration, or None for nowhere.

    None lets a decoder take all steps at once. A row that sequence teacher forcing leaves free is fed back at every
    step, whatever scheduled sampling drew for it.

    Args:
        rows: R, sequences of the batch.
        steps: T, steps of the decoder.
        step: optimiser steps made so far.
    """
    draws = items.current()
    probability = scheduled_sampling_probability(
        step, probability=config.scheduled_sampling, warmup_steps=config.scheduled_sampling_warmup
    )
    mask = None
    if probability > 0.0:
        mask = scheduled_sampling_mask(rows, steps, probability, generator, draws)
    if config.sequence_teacher_forcing < 1.0:
        forced = sequence_teacher_forcing_mask(rows, config.sequence_teacher_forcing, generator, draws)
        free = ~forced[:, None].repeat(1, steps)
        free[:, :1] = False
        mask = free if mask is None else mask | free
    return mask
