"""What the decoder is fed in training: the gold symbol or its own last output.

Two methods, often confused, under their own names. *Scheduled sampling* (Bengio 2015) throws a coin at every step of
every sequence. *Sequence teacher forcing* throws one coin a sequence, which is then forced or free-running throughout.
All draws come from the given generator and are on its device.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from regard.config.schema import TrainingConfig
from regard.shapes import Bool


def scheduled_sampling_probability(step: int, *, probability: float, warmup_steps: int) -> float:
    """The probability of feeding back after `step` optimiser steps: linear from 0 over the warm-up.

    >>> scheduled_sampling_probability(50, probability=0.5, warmup_steps=100)
    0.25
    """
    return probability * min(step / warmup_steps, 1.0) if warmup_steps else probability


def scheduled_sampling_mask(rows: int, steps: int, probability: float, generator: Generator) -> Bool[Tensor, "R T"]:
    """True where a decoder is fed its own last output: a coin for every step of every row.

    The first step is False: it is fed the beginning of the sequence, whatever happens.
    """
    mask = torch.rand(rows, steps, generator=generator, device=generator.device) < probability
    mask[:, :1] = False
    return mask


def sequence_teacher_forcing_mask(rows: int, probability: float, generator: Generator) -> Bool[Tensor, " R"]:
    """True for the rows that are teacher-forced from beginning to end: a coin for every row."""
    return torch.rand(rows, generator=generator, device=generator.device) < probability


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
    probability = scheduled_sampling_probability(
        step, probability=config.scheduled_sampling, warmup_steps=config.scheduled_sampling_warmup
    )
    mask = scheduled_sampling_mask(rows, steps, probability, generator) if probability > 0.0 else None
    if config.sequence_teacher_forcing < 1.0:
        free = ~sequence_teacher_forcing_mask(rows, config.sequence_teacher_forcing, generator)[:, None].repeat(
            1, steps
        )
        free[:, :1] = False
        mask = free if mask is None else mask | free
    return mask
