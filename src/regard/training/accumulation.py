"""The batches of a run, in order, grouped into those whose gradients one optimiser step accumulates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.errors import RegardError, UnsupportedError
from regard.training import processes
from regard.training.trainee import DivisibleTrainee, Trainee


@dataclass(frozen=True, slots=True)
class LocalBatch:
    """The part of a batch that one process computes.

    Args:
        description: of its rows (`Trainee.descriptions`).
        weight: 1, or 0 for a process without rows. Because all processes have to make the same calls, it computes the
            rows of another process, which then do not count.
    """

    description: Any
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The batches of one optimiser step.

    Args:
        batches: this process's part of each.
        end: the number of batches of the epoch used up to and including this step.
        size: the number of batches of the epoch.
    """

    batches: tuple[LocalBatch, ...]
    epoch: int
    end: int
    size: int


def accumulations(trainee: Trainee, *, epoch: int, batch: int, epochs: int, count: int) -> Iterator[Accumulation]:
    """The steps from a position (the epoch and its number of used batches) to the end of the last epoch.

    The last step of an epoch may have fewer batches than `count`.
    """
    for current in range(epoch, epochs):
        descriptions = trainee.descriptions(current)
        size = len(descriptions)
        if not size:
            raise RegardError(f"Epoch {current + 1} has no batches. Is the training data empty?")
        for start in range(batch if current == epoch else 0, size, count):
            end = min(start + count, size)
            batches = tuple(local_batch(trainee, descriptions[i]) for i in range(start, end))
            yield Accumulation(batches, current, end, size)


def local_batch(trainee: Trainee, description: Any) -> LocalBatch:
    """This process's part of a batch."""
    count = processes.size()
    if count == 1:
        return LocalBatch(description)
    if not isinstance(trainee, DivisibleTrainee):
        raise UnsupportedError(
            f"{type(trainee).__name__} cannot be trained by {count} processes: it lacks the methods divide and "
            "item_ids (regard.training.DivisibleTrainee). Add them, or start one process."
        )
    parts = trainee.divide(description, count)
    rank = processes.rank()
    return LocalBatch(parts[rank]) if rank < len(parts) else LocalBatch(parts[-1], 0.0)


def make_batches(trainee: Trainee, accumulation: Accumulation) -> list[Any]:
    """The batches of a step."""
    batches = []
    for local in accumulation.batches:
        try:
            batches.append(trainee.batch(local.description))
        except Exception as error:
            error.add_note(f"while preparing the batch {local.description!r:.500} of epoch {accumulation.epoch + 1}")
            raise
    return batches
