"""Errors of forecasts, on the standardised and the original scale, and of their quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.series.forecasts import as_values
from regard.data.series.series import Values
from regard.data.series.windows import SeriesBatch
from regard.errors import ShapeError
from regard.metrics.bootstrap import MetricTerms, ratio_terms


@dataclass(frozen=True, slots=True)
class ForecastErrors:
    """Means over observed values; NaN without any.

    Args:
        num_values: the number of observed values.
        mean_squared_error, mean_absolute_error: on the standardised scale of the series' training rows, as usual in
            publications.
        original_mean_squared_error, original_mean_absolute_error: in the unit of the file.
        pinball_loss: the mean over levels, standardised; NaN without quantiles.
        pinball_losses: of each level.
        coverage: for each level the share of values at or below its quantile, ideally the level itself.
    """

    num_values: int
    mean_squared_error: float
    mean_absolute_error: float
    original_mean_squared_error: float
    original_mean_absolute_error: float
    pinball_loss: float
    pinball_losses: Mapping[float, float]
    coverage: Mapping[float, float]


def pinball(truth: Values, quantiles: Values, levels: Sequence[float]) -> Values:
    """The pinball loss max(τ (y − q), (τ − 1) (y − q)) of true values y (...) and quantiles q (..., Q): (..., Q).

    Its expectation is smallest where q is the quantile of level τ; at τ = ½ it is half the absolute error.

    Source: Koenker & Bassett 1978, "Regression quantiles".

    >>> pinball(np.array([1.0, 3.0]), np.array([[2.0], [2.0]]), [0.9]).ravel().round(3)
    array([0.1, 0.9])
    """
    tau = np.asarray(levels, dtype=np.float64)
    errors = truth[..., None] - quantiles
    return np.maximum(tau * errors, (tau - 1) * errors)


class ForecastTally:
    """Sums of the errors of forecasts over batches.

    Args:
        levels: Q levels of the quantiles, if there are quantiles.
        keep_windows: whether the sums of each window are kept, for `terms`.

    >>> from regard.data.series import RepeatLast, SeriesTable, Step, SeriesWindows
    >>> table = SeriesTable.of({"a": [1.0, 2.0, 4.0], "b": [0.0, 0.0, 1.0]}, "2024-01-01", Step(months=1))
    >>> tally = ForecastTally()
    >>> for batch in SeriesWindows(table, history=1, horizon=1).batches():
    ...     tally.add(batch, RepeatLast().predict(batch))
    >>> tally.overall().mean_absolute_error, tally.by_series()["a"].mean_squared_error
    (1.0, 2.5)
    """

    def __init__(self, levels: Sequence[float] = (), *, keep_windows: bool = False) -> None:
        self.levels = tuple(levels)
        self._windows: list[Values] | None = [] if keep_windows else None
        """Of each batch (B, 5 + 2Q), as `_sums`, over targets."""
        self._sums: dict[str, Values] = {}
        """For each series (F, 5 + 2Q): count, squared and absolute errors on both scales, pinball losses, coverage."""
        self._target_names: tuple[str, ...] = ()

    def add(self, batch: SeriesBatch, values: Any, quantiles: Any = None) -> None:
        """Adds forecasts (B, T, F) and, if there are levels, quantiles (B, T, F, Q), on the scale of the batch.

        Raises:
            ShapeError: for other shapes.
        """
        values = as_values("values", values, batch.targets.shape)
        if (quantiles is None) != (not self.levels):
            raise ShapeError(f"Give quantiles if there are levels, and only then; the levels are {list(self.levels)}.")
        errors = batch.standardised(values) - batch.standardised(batch.targets)
        original = errors * batch.series_deviation[:, None]
        terms = [np.ones_like(errors), errors**2, abs(errors), original**2, abs(original)]
        if quantiles is not None:
            quantiles = as_values("quantiles", quantiles, (*batch.targets.shape, len(self.levels)))
            losses = pinball(batch.standardised(batch.targets), batch.standardised(quantiles), self.levels)
            below = batch.targets[..., None] <= quantiles
            terms += [*np.moveaxis(losses, -1, 0), *np.moveaxis(below, -1, 0)]
        observed = batch.targets_observed
        sums = np.stack([np.where(observed, term, 0.0).sum(axis=1) for term in terms], axis=-1)  # (B, F, terms)
        self._target_names = batch.target_names
        if self._windows is not None:
            self._windows.append(sums.sum(axis=1))
        for name, row in zip(batch.names, sums, strict=True):
            self._sums[name] = self._sums.get(name, 0.0) + row

    def overall(self) -> ForecastErrors:
        """The errors over all values of all series: longer series have more weight."""
        return self._errors(self._total().sum(axis=0))

    def by_series(self) -> dict[str, ForecastErrors]:
        """The errors of each series over its targets."""
        return {name: self._errors(sums.sum(axis=0)) for name, sums in self._sums.items()}

    def by_target(self) -> dict[str, ForecastErrors]:
        """The errors of each target over the series."""
        return {name: self._errors(row) for name, row in zip(self._target_names, self._total(), strict=True)}

    def terms(self, scale: str = "") -> dict[str, MetricTerms]:
        """What each window adds to the means over all values, by metric, if the windows are kept.

        Args:
            scale: names the scale of standardised errors; those on different scales are not comparable.
        """
        assert self._windows is not None
        count, squares, absolute, _, original, *further = np.concatenate(self._windows).T
        terms = {
            "mean_squared_error": ratio_terms(squares, count, basis=scale),
            "mean_absolute_error": ratio_terms(absolute, count, basis=scale),
            "original_mean_absolute_error": ratio_terms(original, count),
        }
        if self.levels:
            losses = np.mean(further[: len(self.levels)], axis=0)
            terms["pinball_loss"] = ratio_terms(losses, count, basis=f"{scale}{list(self.levels)}")
        return terms

    def _total(self) -> Values:
        """(F, terms)."""
        if not self._sums:
            raise ShapeError("No forecast was added.")
        return np.sum(list(self._sums.values()), axis=0)

    def _errors(self, sums: Values) -> ForecastErrors:
        count, *rest = sums.tolist()
        means = [value / count if count else float("nan") for value in rest]
        number = len(self.levels)
        losses, coverage = means[4 : 4 + number], means[4 + number :]
        return ForecastErrors(
            int(count),
            means[0],
            means[1],
            means[2],
            means[3],
            pinball_loss=float(np.mean(losses)) if losses else float("nan"),
            pinball_losses=dict(zip(self.levels, losses, strict=True)),
            coverage=dict(zip(self.levels, coverage, strict=True)),
        )
