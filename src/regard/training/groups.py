"""The batches of a run, in order, grouped into optimiser steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.errors import RegardError, UnsupportedError
from regard.training import processes
from regard.training.trainee import DivisibleTrainee, Trainee


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a batch that one process computes.

    Args:
        description: of the rows of the part.
        weight: 1, or 0 for a process for which no rows are left. As all processes have to make the same calls, that
            process computes the part of another, which then does not count.
    """

    description: Any
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Group:
    """The batches of one optimiser step.

    Args:
        parts: this process's parts of the batches.
        epoch: counted from 0.
        end: the number of batches of the epoch that are used after this step.
        size: the number of batches of the epoch.
    """

    parts: tuple[Part, ...]
    epoch: int
    end: int
    size: int


def groups(trainee: Trainee, *, epoch: int, batch: int, epochs: int, accumulation: int) -> Iterator[Group]:
    """The groups from a position (epoch, and batches of it that are used) to the end of the last epoch.

    A step never extends into the next epoch: the last one of an epoch may have fewer batches.
    """
    for current in range(epoch, epochs):
        descriptions = trainee.plan(current)
        size = len(descriptions)
        if not size:
            raise RegardError(f"Epoch {current + 1} has no batches. Is the training data empty?")
        for start in range(batch if current == epoch else 0, size, accumulation):
            end = min(start + accumulation, size)
            yield Group(tuple(part(trainee, descriptions[i]) for i in range(start, end)), current, end, size)


def part(trainee: Trainee, description: Any) -> Part:
    """This process's part of a batch.

    Raises:
        UnsupportedError: in several processes, for a trainee whose batches cannot be divided.
    """
    count = processes.size()
    if count == 1:
        return Part(description)
    if not isinstance(trainee, DivisibleTrainee):
        raise UnsupportedError(
            f"{type(trainee).__name__} cannot be trained by {count} processes: it lacks the methods divide and "
            "item_ids (regard.training.DivisibleTrainee). Add them, or start one process."
        )
    parts = trainee.divide(description, count)
    number = processes.rank()
    return Part(parts[number]) if number < len(parts) else Part(parts[-1], 0.0)


def make_batches(trainee: Trainee, group: Group) -> list[Any]:
    """The batches of a group."""
    batches = []
    for description in (part.description for part in group.parts):
        try:
            batches.append(trainee.batch(description))
        except Exception as error:
            error.add_note(f"while preparing the batch {description!r:.500} of epoch {group.epoch + 1}")
            raise
    return batches
