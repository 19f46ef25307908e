"""Successive halving: which trainings of a search stop at a validation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Halving:
    """Asynchronous successive halving (Li 2018, "A System for Massively Parallel Hyperparameter Tuning").

    At the validations `first`, `first` · `factor`, `first` · `factor`², … a training continues if it is among the best
    1/`factor` of those that have been there, or the best of all. Its value is the best of its validations so far, which
    is that of the model that it keeps. The decision depends only on the values, so that a search which was killed
    decides the same when it continues.

    >>> halving = Halving(factor=2, first=1)
    >>> halving.stops([0.5], [[0.4], [0.3, 0.2]]), halving.stops([0.1], [[0.4], [0.3, 0.2]])
    (True, False)

    Args:
        factor: one in so many continues; None: all do.
        first: the first validation at which there is a decision, from 1.
        larger_is_better: whether larger values are better.
    """

    factor: int | None
    first: int = 1
    larger_is_better: bool = False

    def stops(self, values: Sequence[float], others: Iterable[Sequence[float]]) -> bool:
        """Whether a training stops at its last validation.

        Args:
            values: of its validations.
            others: those of each earlier training.
        """
        number = len(values)
        if self.factor is None or not self._decides(number):
            return False
        own = self.best(values)
        rivals = [self.best(each[:number]) for each in others if len(each) >= number]
        better = sum(value > own if self.larger_is_better else value < own for value in rivals)
        return better >= max((len(rivals) + 1) // self.factor, 1)

    def best(self, values: Iterable[float]) -> float:
        """The best of some values, of which those that are not numbers are the worst."""
        worst = -math.inf if self.larger_is_better else math.inf
        choose = max if self.larger_is_better else min
        return choose((worst if math.isnan(value) else value for value in values), default=worst)

    def _decides(self, number: int) -> bool:
        assert self.factor is not None
        while number > self.first and number % self.factor == 0:
            number //= self.factor
        return number == self.first
