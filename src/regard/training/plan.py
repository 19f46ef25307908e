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
    """What one process does of a batch.

    Args:
        description: of its rows.
        weight: 1; 0 for a process for which no rows are left. It computes what another does, and nothing of it counts,
            for all processes have to make the same calls.
    """

    description: Any
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Group:
    """The batches of one optimiser step.

    Args:
        parts: of its batches, what this process does.
        epoch: counted from 0.
        end: batches of the epoch that are used after it.
        size: batches of the epoch.
    """

    parts: tuple[Part, ...]
    epoch: int
    end: int
    size: int


def groups(trainee: Trainee, *, epoch: int, batch: int, epochs: int, accumulation: int) -> Iterator[Group]:
    """The steps from a position (epoch and batches of it that are used) to the end of the last epoch.

    A step never reaches into the next epoch: the last one of an epoch may have fewer batches.
    """
    for current in range(epoch, epochs):
        plan = trainee.plan(current)
        size = len(plan)
        if not size:
            raise RegardError(f"Epoch {current + 1} has no batches: is the training data empty?")
        for start in range(batch if current == epoch else 0, size, accumulation):
            end = min(start + accumulation, size)
            yield Group(tuple(part(trainee, plan[i]) for i in range(start, end)), current, end, size)


def part(trainee: Trainee, description: Any) -> Part:
    """What this process does of a batch.

    Raises:
        UnsupportedError: in several processes, for a trainee whose batches cannot be divided.
    """
    count = processes.size()
    if count == 1:
        return Part(description)
    if not isinstance(trainee, DivisibleTrainee):
        raise UnsupportedError(
            f"{type(trainee).__name__} cannot be trained by {count} processes: it has no divide and item_ids "
            "(regard.training.DivisibleTrainee). Start one process, or write them."
        )
    parts = trainee.divide(description, count)
    number = processes.rank()
    return Part(parts[number]) if number < len(parts) else Part(parts[-1], 0.0)


def make(trainee: Trainee, group: Group) -> list[Any]:
    """The batches of a group."""
    batches = []
    for one in group.parts:
        try:
            batches.append(trainee.batch(one.description))
        except Exception as error:
            error.add_note(f"while preparing the batch {one.description!r:.500} of epoch {group.epoch + 1}")
            raise
    return batches
