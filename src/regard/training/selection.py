"""The selection of the best validation of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.config.spelling import nearest
from regard.errors import ConfigError

TIE_BREAKERS = ("teacher_forced_loss", "loss")
"""Losses, in order of preference: between equal values of the selected metric, the lower loss is better."""


def _loss(metrics: Mapping[str, float]) -> float:
    """The loss of a validation; nan without one."""
    return next((metrics[name] for name in TIE_BREAKERS if name in metrics), math.nan)


@dataclass(slots=True)
class BestValidation:
    """The best validation by one metric; plain values.

    Args:
        best, step, metrics, concern: the best value, and step, metrics and `Validation.concern` of its validation.
        stale: validations since the metric or the loss last improved.
        lowest_loss: the lowest loss (`TIE_BREAKERS`) of all validations that have one.
        last: the step of the last validation; None before the first.
    """

    metric: str
    larger_is_better: bool = False
    best: float | None = None
    step: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    concern: str | None = None
    stale: int = 0
    lowest_loss: float = math.inf
    last: int | None = None

    def observe(self, metrics: Mapping[str, float], step: int, *, concern: str | None = None) -> bool:
        """Records a validation; returns whether it is strictly better than all before it.

        Raises:
            ConfigError: if the metric is not among them.
        """
        improved = self.prefers(metrics)
        loss = _loss(metrics)
        falls = loss < self.lowest_loss
        self.last = step
        self.lowest_loss = loss if falls else self.lowest_loss
        self.stale = 0 if improved or falls else self.stale + 1
        if improved:
            self.best, self.step, self.metrics, self.concern = self.value(metrics), step, dict(metrics), concern
        return improved

    def prefers(self, metrics: Mapping[str, float]) -> bool:
        """Whether metrics are strictly better than the best so far, by the selected one and then by the loss."""
        value = self.value(metrics)
        if self.best is None or self._better(value, self.best):
            return True
        loss, before = _loss(metrics), _loss(self.metrics)
        return value == self.best and loss < before

    def value(self, metrics: Mapping[str, float]) -> float:
        """The value of the selected metric."""
        if self.metric not in metrics:
            similar = nearest(self.metric, metrics)
            hint = f"Did you mean {similar!r}? " if similar else ""
            raise ConfigError(
                f"select is {self.metric!r}, which is not a metric of the validation. {hint}"
                f"Its metrics are: {', '.join(sorted(metrics)) or 'none'}.",
                ("select",),
            )
        return float(metrics[self.metric])

    def _better(self, value: float, best: float) -> bool:
        if math.isnan(best):
            return not math.isnan(value)
        return value > best if self.larger_is_better else value < best
