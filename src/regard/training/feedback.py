"""The decoder's inputs in training: the reference or the decoder's own last output.

There are two methods. *Scheduled sampling* (Bengio 2015) draws at every step of every sequence. *Sequence teacher
forcing* draws once per sequence, which is then teacher-forced or free-running throughout. Draws come from the
generator, or belong to items if the layers draw by item.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Literal

import torch
from torch import Generator, Tensor

from regard.config.schema import FeedbackConfig
from regard.layers import items
from regard.layers.items import ItemDraws
from regard.shapes import Bool, Float

SCHEDULED_SAMPLING, SEQUENCE_TEACHER_FORCING = 0x5C4ED0, 0x7EAC4E
"""Sites of draws by item."""


def scheduled_sampling_probability(
    step: int,
    *,
    probability: float,
    warmup_steps: int,
    start: int = 0,
    schedule: Literal["linear", "cosine"] = "linear",
) -> float:
    """The probability of feeding an output back after `step` optimiser steps: 0 until `start`, rising in the warm-up.

    Args:
        probability: after the warm-up.
        start: the first step of the warm-up.
        schedule: linear in the fraction x of the warm-up, or (1 - cos(π x)) / 2.

    >>> scheduled_sampling_probability(50, probability=0.5, warmup_steps=100)
    0.25
    >>> rising = {"probability": 1.0, "start": 10_000, "warmup_steps": 40_000, "schedule": "cosine"}
    >>> [round(1 - scheduled_sampling_probability(step, **rising), 3) for step in (10_000, 20_000, 30_000, 50_000)]
    [1.0, 0.854, 0.5, 0.0]
    """
    if step < start:
        return 0.0
    share = min((step - start) / warmup_steps, 1.0) if warmup_steps else 1.0
    return probability * (share if schedule == "linear" else (1 - math.cos(math.pi * share)) / 2)


def scheduled_sampling_mask(
    rows: int,
    steps: int,
    probability: float | Float[Tensor, ""],
    generator: Generator,
    draws: ItemDraws | None = None,
) -> Bool[Tensor, "R T"]:
    """True where a decoder receives its own last output: independent draws for all steps of all rows.

    The first step is always False.

    Args:
        probability: may be a tensor with draws by item (`ItemDraws.chance`).
        draws: draws by item, in place of the generator.
    """
    if draws is None:
        mask = torch.rand(rows, steps, generator=generator, device=generator.device) < probability
    else:
        mask = draws.chance(steps, probability, SCHEDULED_SAMPLING)
    mask[:, :1] = False
    return mask


def sequence_teacher_forcing_mask(
    rows: int, probability: float, generator: Generator, draws: ItemDraws | None = None
) -> Bool[Tensor, " R"]:
    """True for the rows that are teacher-forced throughout: independent draws for all rows.

    Args:
        draws: as in `scheduled_sampling_mask`.
    """
    if draws is None:
        return torch.rand(rows, generator=generator, device=generator.device) < probability
    return draws.chance(1, probability, SEQUENCE_TEACHER_FORCING)[:, 0]


def feedback_mask(
    config: FeedbackConfig, rows: int, steps: int, *, step: int, generator: Generator
) -> Bool[Tensor, "R T"] | None:
    """True where the decoder receives its own last output by a configuration; None if it never does.

    A row that is free-running by sequence teacher forcing is True at all steps but the first, whatever scheduled
    sampling draws.

    Args:
        rows: R, the sequences of the batch.
        steps: T, the steps of the decoder.
        step: the optimiser steps made so far.
    """
    draws = items.current()
    probability: float | Tensor = _probability(config, step)
    mask = None
    if probability > 0.0:
        if draws is not None and isinstance(draws.key[1], Tensor) and _rises(config, step):
            probability = _rising_probability(config, draws.key[1])
        mask = scheduled_sampling_mask(rows, steps, probability, generator, draws)
    if config.sequence_teacher_forcing < 1.0:
        forced = sequence_teacher_forcing_mask(rows, config.sequence_teacher_forcing, generator, draws)
        free = ~forced[:, None].repeat(1, steps)
        free[:, :1] = False
        mask = free if mask is None else mask | free
    return mask


def feedback_program(config: FeedbackConfig, step: int) -> Hashable:
    """The key of the operations of `feedback_mask` at a step: the probability of scheduled sampling.

    During the warm-up a recorded step computes the probability from its step number.
    """
    probability = _probability(config, step)
    return "rising" if probability > 0.0 and _rises(config, step) else probability


def _rises(config: FeedbackConfig, step: int) -> bool:
    """Whether a step is within the warm-up of scheduled sampling."""
    return 0 <= step - config.scheduled_sampling_start < config.scheduled_sampling_warmup


def _probability(config: FeedbackConfig, step: int) -> float:
    return scheduled_sampling_probability(
        step,
        probability=config.scheduled_sampling,
        warmup_steps=config.scheduled_sampling_warmup,
        start=config.scheduled_sampling_start,
        schedule=config.scheduled_sampling_schedule,
    )


def _rising_probability(config: FeedbackConfig, step: Tensor) -> Float[Tensor, ""]:
    """`_probability` during the warm-up, from a step number on a device, in float64."""
    share = (step.double() - config.scheduled_sampling_start) / config.scheduled_sampling_warmup
    if config.scheduled_sampling_schedule == "cosine":
        share = (1 - torch.cos(math.pi * share)) / 2
    return config.scheduled_sampling * share
