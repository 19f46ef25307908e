"""Forecasts without a network, with which those of a model are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from regard.data.series import AbstractBaseline, LinearForecast, RepeatLast, Seasonal, SeriesBatch, SeriesWindows, Step
from regard.metrics import ForecastErrors, ForecastTally
from regard.tasks.forecasting.config import ForecastingConfig
from regard.tasks.forecasting.reading import SeriesData


@dataclass(frozen=True, eq=False)
class Baselines:
    """The last value, the last season if there is one, and the linear map of the history."""

    by_name: Mapping[str, AbstractBaseline]

    @classmethod
    def of(cls, linear: LinearForecast, step: Step, history: int) -> Baselines:
        """The baselines of series with this step."""
        by_name: dict[str, AbstractBaseline] = {"repeat last": RepeatLast()}
        if 1 < step.period <= history:
            by_name["seasonal"] = Seasonal(step.period)
        return cls({**by_name, "linear": linear})

    @classmethod
    def fit(cls, config: ForecastingConfig, material: SeriesData) -> Baselines:
        """The baselines of the training windows."""
        return cls.of(material.linear(config), material.table.step, config.data.history)

    def errors(self, windows: SeriesWindows) -> dict[str, ForecastErrors]:
        """The errors of each on windows."""
        tally = BaselineTally(self)
        for batch in windows.batches():
            tally.add(batch)
        return tally.overall()


class BaselineTally:
    """Errors of the baselines, batch by batch; the linear one only up to its own horizon."""

    def __init__(self, baselines: Baselines, *, keep_windows: bool = False) -> None:
        self.baselines, self.keep_windows = baselines, keep_windows
        self.tallies: dict[str, ForecastTally] = {}

    def add(self, batch: SeriesBatch) -> None:
        """Adds the forecasts of a batch."""
        steps = batch.targets.shape[1]
        for name, baseline in self.baselines.by_name.items():
            if isinstance(baseline, LinearForecast):
                if baseline.weights.shape[2] < steps:
                    continue
                baseline = LinearForecast(baseline.weights[..., :steps])
            tally = self.tallies.setdefault(name, ForecastTally(keep_windows=self.keep_windows))
            tally.add(batch, baseline.predict(batch))

    def overall(self) -> dict[str, ForecastErrors]:
        """The errors of each over all batches."""
        return {name: tally.overall() for name, tally in self.tallies.items()}


def baseline_text(errors: Mapping[str, ForecastErrors]) -> str:
    """The errors of the baselines in words."""
    return "; ".join(
        f"{name} MSE {error.mean_squared_error:.4f}, MAE {error.mean_absolute_error:.4f}"
        for name, error in errors.items()
    )
