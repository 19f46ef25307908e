"""Which validation was the best."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.errors import ConfigError


@dataclass(slots=True)
class Selection:
    """Follows one metric of the validations; plain values.

    Args:
        metric: its name.
        larger_is_better: whether a larger value is better.
        best, step, metrics: the best value, after which step it was found, and the other figures found with it.
        stale: validations since then.
        last: the step of the last validation, or None before the first.
    """

    metric: str
    larger_is_better: bool = False
    best: float | None = None
    step: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    stale: int = 0
    last: int | None = None

    def observe(self, metrics: Mapping[str, float], step: int) -> bool:
        """Takes note of a validation; True if it is strictly better than all before it.

        Raises:
            ConfigError: if the metric is not among them.
        """
        value = self.value(metrics)
        self.last = step
        if self.best is None or self._better(value, self.best):
            self.best, self.step, self.metrics, self.stale = value, step, dict(metrics), 0
            return True
        self.stale += 1
        return False

    def value(self, metrics: Mapping[str, float]) -> float:
        """The metric that is followed."""
        if self.metric not in metrics:
            near = difflib.get_close_matches(self.metric, list(metrics), n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise ConfigError(
                f"select is {self.metric!r}, which the validation does not give. {hint}"
                f"It gives: {', '.join(sorted(metrics)) or 'nothing'}.",
                ("select",),
            )
        return float(metrics[self.metric])

    def _better(self, value: float, best: float) -> bool:
        if math.isnan(best):
            return not math.isnan(value)
        return value > best if self.larger_is_better else value < best
