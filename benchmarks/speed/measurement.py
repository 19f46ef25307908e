"""Measuring a case: first the gate, then time, then memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from regard.training.device import threads
from speed import memory
from speed.case import OURS, PLAIN, Case
from speed.clock import turns
from speed.gate import Error, judge


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure.

    Args:
        rounds: the number of turns of each side.
        turn: the least seconds of a turn.
        quick: whether sizes are small.
    """

    rounds: int
    turn: float
    quick: bool


FULL, QUICK = Effort(15, 0.1, False), Effort(3, 0.005, True)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement of a case.

    Args:
        errors: of every result and gradient, from the gate.
        seconds: by the number of threads and the side, a number for each round; empty if the gate failed.
        bytes: peak memory beyond inputs, results and gradients, by side; empty if it was not measured.
    """

    case: Case
    sizes: Mapping[str, int]
    errors: Mapping[str, Error]
    seconds: Mapping[int, Mapping[str, list[float]]]
    bytes: Mapping[str, int]

    @property
    def is_full(self) -> bool:
        """Whether the sizes are those of the aims."""
        return dict(self.sizes) == dict(self.case.sizes)

    @property
    def passes(self) -> bool:
        """Whether it passed the gate."""
        return all(error.passes for error in self.errors.values())


def measure(case: Case, counts: tuple[int, ...], effort: Effort) -> Measurement:
    """Measures a case with each number of threads; one that fails the gate is not timed."""
    sizes = case.sized(quick=effort.quick)
    with threads(max(counts)):
        errors = judge(case, sizes)
    if not all(error.passes for error in errors.values()):
        return Measurement(case, sizes, errors, {}, {})
    contest = case.contest(torch.float32, sizes)
    sides = {name: side for name, side in contest.sides.items() if name not in case.untimed}
    seconds = {}
    for count in counts:
        with threads(count):
            seconds[count] = turns({**sides, **contest.yardsticks}, rounds=effort.rounds, turn=effort.turn)
    peaks = {}
    has_aim = case.share is not None or case.megabytes is not None
    if case.measures_memory and memory.available() and (has_aim or not effort.quick):
        peaks = {side: memory.extra(case.name, side, sizes) for side in (OURS, PLAIN) if side in sides}
    return Measurement(case, sizes, errors, seconds, peaks)
