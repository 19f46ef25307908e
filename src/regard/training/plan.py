"""The batches of a run, in order, grouped into optimiser steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.errors import RegardError
from regard.training.trainee import Trainee


@dataclass(frozen=True, slots=True)
class Group:
    """The batches of one optimiser step.

    Args:
        descriptions: of its batches.
        epoch: counted from 0.
        end: batches of the epoch that are used after it.
        size: batches of the epoch.
    """

    descriptions: tuple[Any, ...]
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
            yield Group(tuple(plan[i] for i in range(start, end)), current, end, size)


def make(trainee: Trainee, group: Group) -> list[Any]:
    """The batches of a group."""
    batches = []
    for description in group.descriptions:
        try:
            batches.append(trainee.batch(description))
        except Exception as error:
            error.add_note(f"while preparing the batch {description!r:.500} of epoch {group.epoch + 1}")
            raise
    return batches
