"""Baseline forecasts: the last value, the last season, and a linear map of the past."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from regard.data.series.series import Values
from regard.data.series.windows import Mask, SeriesBatch, SeriesWindows
from regard.errors import DataError

FIT_BATCH = 1_024
FIT_BYTES = 1 << 28
"""The most memory for the matrices of the steps that are solved at once."""


class AbstractBaseline(ABC):
    """A forecast without a network: `fit` on training windows returns it, `predict` forecasts a batch."""

    @abstractmethod
    def predict(self, batch: SeriesBatch) -> Values:
        """Forecasts (B, T, F), scaled as the batch."""


@dataclass(frozen=True, slots=True)
class RepeatLast(AbstractBaseline):
    """The last observed value at every step.

    >>> from regard.data.series import SeriesTable, Step
    >>> table = SeriesTable.of({"a": [1.0, 5.0, np.nan, 2.0, 2.0]}, "2024-01-01", Step(months=1))
    >>> windows = SeriesWindows(table, history=3, horizon=2)
    >>> RepeatLast.fit(windows).predict(windows.batch([0]))[0, :, 0].tolist()
    [5.0, 5.0]
    """

    @classmethod
    def fit(cls, windows: SeriesWindows) -> RepeatLast:
        """The baseline, which has no parameters."""
        return cls()

    def predict(self, batch: SeriesBatch) -> Values:
        steps = batch.targets.shape[1]
        last, _ = latest(batch, 1)
        return last.repeat(steps, axis=1)


@dataclass(frozen=True, slots=True)
class Seasonal(AbstractBaseline):
    """The value of the same phase in the last season in which it was observed, or the last observed value.

    >>> from regard.data.series import SeriesTable, Step
    >>> table = SeriesTable.of({"a": [1.0, 2.0, 3.0, np.nan, 0.0, 0.0, 0.0]}, "2024-01-01", Step(months=1))
    >>> Seasonal(2).predict(SeriesWindows(table, history=4, horizon=3).batch([0]))[0, :, 0].tolist()
    [3.0, 2.0, 3.0]
    """

    period: int

    @classmethod
    def fit(cls, windows: SeriesWindows, period: int | None = None) -> Seasonal:
        """The baseline with a period, by default that of the table's step, such as 24 for hours.

        Raises:
            DataError: if the history is shorter than the period, or the step has no season.
        """
        period = windows.table.step.period if period is None else period
        if period < 1 or period > windows.history:
            raise DataError(f"A season of {period} steps does not fit into a history of {windows.history}.")
        return cls(period)

    def predict(self, batch: SeriesBatch) -> Values:
        steps, length = batch.targets.shape[1], batch.history.shape[1]
        seasons = length // self.period
        values, observed = latest(batch, seasons * self.period)
        shape = (len(batch), seasons, self.period, -1)
        values, observed = values.reshape(shape)[:, ::-1], observed.reshape(shape)[:, ::-1]
        newest = observed.argmax(axis=1)[:, None]  # the first season, counted backwards, with an observed phase
        season = np.take_along_axis(values, newest, axis=1)[:, 0]
        last, _ = latest(batch, 1)
        season = np.where(observed.any(axis=1), season, last)
        return season[:, np.arange(steps) % self.period]


@dataclass(frozen=True, eq=False)
class LinearForecast(AbstractBaseline):
    """Ridge regression of every step on the last P values of the same target, for all series together.

    With x (P,) the past and a constant 1 beside it, step t of target f is y = x W + b, where W and b minimise

    Σ (y − x W − b)² + λ |W|²

    over the training windows in which y is observed; b is not penalised. The closed form is solved in float64. Missing
    values of the past are replaced by the last observed ones.

    Args:
        weights: (F, P + 1, T), with the constant last.

    >>> from regard.data.series import SeriesTable, Step
    >>> table = SeriesTable.of({"a": 2.0 * np.arange(20)}, "2024-01-01", Step(months=1))
    >>> windows = SeriesWindows(table, history=2, horizon=2)
    >>> fitted = LinearForecast.fit(windows, penalty=1e-6)
    >>> fitted.predict(windows.batch([3]))[0, :, 0].round(3).tolist(), fitted.past
    ([10.0, 12.0], 2)
    """

    weights: Values

    @property
    def past(self) -> int:
        """P, the number of past values."""
        return self.weights.shape[1] - 1

    @classmethod
    def fit(cls, windows: SeriesWindows, past: int | None = None, penalty: float = 1.0) -> LinearForecast:
        """Fits the regression to training windows, best with stride 1.

        Args:
            past: P; the whole history if None.
            penalty: λ.

        Raises:
            DataError: if P is not between 1 and the history, or λ is not above 0.
        """
        past = windows.history if past is None else past
        if not 1 <= past <= windows.history or penalty <= 0:
            raise DataError(
                f"past must be between 1 and the history of {windows.history}, and penalty above 0; "
                f"got {past} and {penalty}."
            )
        targets, steps, size = len(windows.table.target_names), windows.horizon, past + 1
        squares = np.zeros((targets, size, size))
        products = np.zeros((targets, size, steps))
        is_complete = True
        for batch in windows.batches(FIT_BATCH):
            x, y = _inputs(batch, past), batch.targets.transpose(2, 0, 1)  # (F, B, P + 1), (F, B, T)
            squares += x.transpose(0, 2, 1) @ x
            products += x.transpose(0, 2, 1) @ y  # a missing y is 0
            is_complete = is_complete and bool(batch.targets_observed.all())
        squares += penalty * np.diag([*np.ones(past), 1e-9])
        if is_complete:
            return cls(np.asarray(np.linalg.solve(squares, products), np.float64))
        weights = np.empty_like(products)
        at_once = max(1, FIT_BYTES // (8 * squares.size))
        for first in range(0, steps, at_once):
            chunk = slice(first, min(first + at_once, steps))
            observed = squares[:, None] - _unobserved(windows, past, range(chunk.start, chunk.stop))
            solution = np.linalg.solve(observed, products.transpose(0, 2, 1)[:, chunk, :, None])
            weights[..., chunk] = solution[..., 0].transpose(0, 2, 1)
        return cls(weights)

    def predict(self, batch: SeriesBatch) -> Values:
        steps, targets = batch.targets.shape[1:]
        if (targets, steps) != (len(self.weights), self.weights.shape[2]):
            raise DataError(
                f"The regression forecasts T={self.weights.shape[2]} steps of F={len(self.weights)} targets; the batch "
                f"has T={steps}, F={targets}."
            )
        return (_inputs(batch, self.past) @ self.weights).transpose(1, 2, 0)


def latest(batch: SeriesBatch, count: int) -> tuple[Values, Mask]:
    """The last `count` values (B, count, F) of each history and a mask of the observed ones.

    A shorter history is extended into the past with its first observed value.
    """
    length = batch.history_mask.sum(axis=1)
    at = length[:, None] - count + np.arange(count)
    first = batch.history_observed.argmax(axis=1)[:, None]  # (B, 1, F)
    values = np.take_along_axis(batch.history, np.maximum(at, 0)[..., None], axis=1)
    observed = np.take_along_axis(batch.history_observed, np.maximum(at, 0)[..., None], axis=1)
    before = at[..., None] < first
    values = np.where(before, np.take_along_axis(batch.history, first, axis=1), values)
    return values, observed & (at >= 0)[..., None]


def _inputs(batch: SeriesBatch, past: int) -> Values:
    """(F, B, P + 1): the past of each target and the constant 1."""
    values, _ = latest(batch, past)
    return np.concatenate([values, np.ones((*values.shape[:1], 1, values.shape[2]))], axis=1).transpose(2, 0, 1)


def _unobserved(windows: SeriesWindows, past: int, steps: range) -> Values:
    """(F, steps, P + 1, P + 1): the sum of x xᵀ over the windows in which a target is missing at a step."""
    size = past + 1
    total = np.zeros((len(windows.table.target_names), len(steps), size, size))
    for batch in windows.batches(FIT_BATCH):
        x = _inputs(batch, past)
        for target, at in np.ndindex(total.shape[:2]):
            rows = x[target, ~batch.targets_observed[:, steps[at], target]]
            total[target, at] += rows.T @ rows
    return total
