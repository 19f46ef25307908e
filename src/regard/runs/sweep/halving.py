"""Successive halving: which trainings of a search stop at a validation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Course = Sequence[tuple[float, float]]
"""The validations of a training in order: the share of its steps that had been made, and the value."""


@dataclass(frozen=True, slots=True)
class Halving:
    """Asynchronous successive halving (Li 2018, "A System for Massively Parallel Hyperparameter Tuning").

    When `first`, `first` · `factor`, `first` · `factor`², … of the steps of a training have been made, it continues at
    its next validation if it is among the best 1/`factor` of those that have come so far, or the best of all. Its value
    is the best of its validations until then, which is that of the model that it keeps. The decision depends only on
    the validations, so that a search which was killed decides the same when it continues.

    >>> halving = Halving(factor=2, first=0.5)
    >>> others = [[(0.5, 0.4)], [(0.5, 0.3), (1.0, 0.2)]]
    >>> halving.stops([(0.5, 0.5)], others), halving.stops([(0.5, 0.1)], others)
    (True, False)

    Args:
        factor: one in so many continues; None: all do.
        first: the share of the steps at the first decision.
        larger_is_better: whether larger values are better.
    """

    factor: int | None
    first: float = 0.1
    larger_is_better: bool = False

    def stops(self, course: Course, others: Iterable[Course]) -> bool:
        """Whether a training stops at its last validation.

        Args:
            course: its validations.
            others: those of each earlier training.
        """
        stage = self._stage(course)
        if self.factor is None or stage is None:
            return False
        own = self.best(value for _, value in course)
        rivals = [self._value(each, stage) for each in others if each and each[-1][0] >= stage]
        better = sum(value > own if self.larger_is_better else value < own for value in rivals)
        return better >= max((len(rivals) + 1) // self.factor, 1)

    def best(self, values: Iterable[float]) -> float:
        """The best of some values, of which those that are not numbers are the worst."""
        worst = -math.inf if self.larger_is_better else math.inf
        choose = max if self.larger_is_better else min
        return choose((worst if math.isnan(value) else value for value in values), default=worst)

    def _stage(self, course: Course) -> float | None:
        """The last stage that the last validation has passed and the one before it had not; None if there is none."""
        if self.factor is None or not course:
            return None
        before, now = (course[-2][0] if len(course) > 1 else 0.0), course[-1][0]
        stage, passed = self.first, None
        while stage <= min(now, 1.0):
            passed = stage if stage > before else passed
            stage = round(stage * self.factor, 9)  # 0.6 for 3 times 0.2
        return passed

    def _value(self, course: Course, stage: float) -> float:
        """The best value until the first validation at or after a stage."""
        end = next(number for number, (share, _) in enumerate(course) if share >= stage)
        return self.best(value for _, value in course[: end + 1])
