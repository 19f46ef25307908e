"""Measuring time in turns: all sides in one process, in another order each round, so that other load is fair to all."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quartiles:
    """The median of some numbers and their quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Quartiles:
        """Of at least one number.

        >>> Quartiles.of([1, 2, 3, 4, 5])
        Quartiles(median=3, low=2.0, high=4.0)
        """
        if len(numbers) == 1:
            return cls(numbers[0], numbers[0], numbers[0])
        low, _, high = statistics.quantiles(numbers, n=4, method="inclusive")
        return cls(statistics.median(numbers), low, high)

    @property
    def range(self) -> float:
        """The interquartile range."""
        return self.high - self.low


def turns(
    sides: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    turn: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds per call of every side, a number for each round.

    Each side is first called twice without counting, as the first call may compile or allocate.

    Args:
        rounds: the number of turns of each side.
        turn: the least seconds of a turn; a fast side is called several times in it.
        clock: returns the seconds; for work on a GPU it must wait until the work is done.
    """
    calls = {}
    for name, side in sides.items():
        side()
        calls[name] = max(1, math.ceil(turn / _seconds(side, 1, clock)))
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                seconds[name].append(_seconds(sides[name], calls[name], clock))
    finally:
        if collecting:
            gc.enable()
    return seconds


def ratio(slow: Sequence[float], fast: Sequence[float]) -> Quartiles:
    """How many times faster `fast` is, round by round."""
    return Quartiles.of([a / b for a, b in zip(slow, fast, strict=True)])


def _seconds(side: Callable[[], object], calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        side()
    return (clock() - start) / calls
