"""Sums over the steps since the last line of metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.training.step import Figures

SYMBOLS, PER_SECOND = "symbols", "_per_second"


@dataclass(slots=True)
class MetricSums:
    """The sums behind a line of metrics; plain values, so that a resumed run continues them."""

    loss: float = 0.0
    count: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    gradient_norm: float = 0.0
    steps: int = 0
    skipped: int = 0
    seconds: float = 0.0
    waited: float = 0.0

    def pass_time(self, seconds: float, waited: float) -> None:
        """Adds the time of a step."""
        self.seconds += seconds
        self.waited += waited

    def add(self, figures: Figures) -> None:
        """Adds the figures of a step; skipped steps are only counted."""
        if figures.skipped:
            self.skipped += 1
            return
        self.steps += 1
        self.loss += figures.loss
        self.count += figures.count
        self.gradient_norm += figures.gradient_norm
        for name, value in figures.metrics.items():
            self.metrics[name] = self.metrics.get(name, 0.0) + value

    def averages(self) -> dict[str, float]:
        """Loss and metrics per real symbol (or other unit), and the mean norm of the gradient, of steps not skipped."""
        result: dict[str, float] = {}
        if self.steps:
            count = max(self.count, 1.0)
            result = {
                "loss": self.loss / count,
                **{name: value / count for name, value in self.metrics.items()},
                "gradient_norm": self.gradient_norm / self.steps,
            }
        return result | ({"skipped_steps": float(self.skipped)} if self.skipped else {})

    def timing(self, counted: str = SYMBOLS) -> dict[str, float]:
        """Seconds, units per second, and the share of the time spent waiting for batches."""
        seconds = max(self.seconds, 1e-9)
        return {
            "seconds": self.seconds,
            f"{counted}{PER_SECOND}": self.count / seconds,
            "waiting": min(self.waited / seconds, 1.0),
        }
