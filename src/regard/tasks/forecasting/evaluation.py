"""Forecasts of files, and errors of forecasts from rolling origins, compared with those without a network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from regard.data.series import Forecast, SeriesWindows, StandardScale
from regard.errors import counted
from regard.metrics import ForecastErrors, ForecastTally, ItemTerms, ShownItem
from regard.tasks.forecasting.baselines import BaselineTally, baseline_text
from regard.viz import plot_forecast
from regard.viz.notebook import embedded_page, shown_text

SHOWN = 5
"""The most series of a file that a notebook shows."""


@dataclass(frozen=True, slots=True)
class FileForecasts:
    """The forecasts of the series of a file.

    Args:
        forecasts: one for each series that could be forecast.
        warnings: why a series could not be forecast, or not as it is.
    """

    name: str
    forecasts: tuple[Forecast, ...]
    warnings: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """The forecast of every series, for notebooks."""
        notes = [shown_text("", *self.warnings)] * bool(self.warnings)
        pages = [
            embedded_page(partial(plot_forecast, each), f"forecast of {each.series or self.name}")
            for each in self.forecasts[:SHOWN]
        ]
        more = len(self.forecasts) - SHOWN
        return "\n".join([*pages, *([f"<p>{more:,} more series</p>"] if more > 0 else []), *notes])


@dataclass(frozen=True, slots=True)
class ScoredSeries:
    """A series of an evaluation with the errors of its forecasts."""

    place: str
    prediction: FileForecasts
    errors: ForecastErrors

    def record(self) -> dict[str, Any]:
        """The errors as a JSON object."""
        return {
            "place": self.place,
            "input": self.place,
            "references": [],
            "output": None,
            "errors": None,
            "length": self.errors.num_values,
            "score": None,
            "confidence": None,
            **_plain(self.errors),
        }

    def __str__(self) -> str:
        errors = self.errors
        return (
            f"{self.place}: MSE {errors.mean_squared_error:.4f}, MAE {errors.mean_absolute_error:.4f} "
            f"({counted(errors.num_values, 'value|values')})"
        )


@dataclass(frozen=True, slots=True)
class ForecastEvaluation:
    """Errors of free-running forecasts that begin at every step of a period, on the scale of the training rows.

    mean_squared_error, mean_absolute_error: over all observed values.
    pinball_loss, coverage_τ: of models of quantiles; the share of values at or below the quantile of level τ.

    Args:
        steps: T.
        first, last: the first and the last time of the forecasts.
        baselines: errors of the forecasts without a network, by name.
        notes: about rows that were left out.
        windows: what was forecast.
        warnings: series and targets without errors.
        terms: what each forecast adds to the errors, of the model and of the baselines.
    """

    num_forecasts: int
    steps: int
    first: str
    last: str
    errors: ForecastErrors
    by_target: Mapping[str, ForecastErrors]
    baselines: Mapping[str, ForecastErrors]
    scored: Sequence[ScoredSeries]
    notes: tuple[str, ...] = ()
    warnings: Sequence[str] = ()
    windows: SeriesWindows | None = field(default=None, repr=False, compare=False)
    terms: ItemTerms | None = field(default=None, repr=False, compare=False)

    @property
    def calibration_error(self) -> float | None:
        """The mean gap between the level of a quantile and the share of values at or below it; None without them."""
        gaps = [abs(share - level) for level, share in self.errors.coverage.items()]
        return sum(gaps) / len(gaps) if gaps else None

    @property
    def metrics(self) -> dict[str, float]:
        """The errors of the model and of the baselines by name, and the number of forecasts."""
        return {
            **figures(self.errors),
            **{
                f"{name.replace(' ', '_')}_{metric}": getattr(errors, metric)
                for name, errors in self.baselines.items()
                for metric in ("mean_squared_error", "mean_absolute_error")
            },
            "forecasts": self.num_forecasts,
        }

    @property
    def worst(self) -> list[ScoredSeries]:
        """The series with the largest errors first."""
        return sorted(self.scored, key=lambda entry: -np.nan_to_num(entry.errors.mean_squared_error))

    @property
    def details(self) -> Mapping[str, Any]:
        """The errors of each target, and the notes."""
        targets = {name: _plain(errors) for name, errors in self.by_target.items()}
        error = {} if self.calibration_error is None else {"calibration_error": self.calibration_error}
        return {"targets": targets, **error, **({"notes": list(self.notes)} if self.notes else {})}

    def __str__(self) -> str:
        errors = self.errors
        lines = [
            f"{counted(self.num_forecasts, 'forecast|forecasts')} of {counted(self.steps, 'step|steps')}, "
            f"{self.first} to {self.last}: "
            f"MSE {errors.mean_squared_error:.4f}, MAE {errors.mean_absolute_error:.4f}"
        ]
        if errors.coverage:
            covered = ", ".join(f"{level:g}: {share:.1%}" for level, share in errors.coverage.items())
            lines.append(
                f"pinball loss {errors.pinball_loss:.4f}; at or below the quantile of {covered}; "
                f"calibration error {self.calibration_error:.4f}"
            )
        lines.append(f"without a network: {baseline_text(self.baselines)}")
        return "\n".join([*lines, *self.notes])


def terms_of(
    windows: SeriesWindows, scale: StandardScale, tally: ForecastTally, baselines: BaselineTally | None = None
) -> ItemTerms:
    """What each forecast adds to the errors; forecasts that begin within two horizons of each other are a group.

    Args:
        scale: of the series of the windows.
        tally, baselines: of all windows, in order, with `keep_windows`.
    """
    series, horizon, places = windows.table.series, windows.horizon, windows.places.tolist()
    starts = np.array([series[i].times[start] for i, start in places])
    every = np.unique(np.concatenate([each.times for each in series]))
    digest = hashlib.blake2b(np.stack([scale.mean, scale.deviation]).tobytes(), digest_size=4).hexdigest()
    basis = f"scale {digest}"

    def show(index: int) -> ShownItem:
        i, start = places[index]
        return ShownItem(f"{series[i].name} {series[i].stamp(start)}".strip(), read=(windows, index))

    return ItemTerms(
        [(series[i].name, str(start), horizon) for (i, _), start in zip(places, starts)],
        tally.terms(basis),
        show,
        np.searchsorted(every, starts) // (2 * horizon),
        {} if baselines is None else {name: each.terms(basis) for name, each in baselines.tallies.items()},
    )


def figures(errors: ForecastErrors) -> dict[str, float]:
    """The metrics of forecasts by name."""
    metrics = {
        "mean_squared_error": errors.mean_squared_error,
        "mean_absolute_error": errors.mean_absolute_error,
    }
    if errors.coverage:
        metrics["pinball_loss"] = errors.pinball_loss
        metrics |= {f"coverage_{level:g}": share for level, share in errors.coverage.items()}
    return metrics


def _plain(errors: ForecastErrors) -> dict[str, Any]:
    """The errors as JSON, without missing ones."""
    plain: dict[str, Any] = {}
    for name, value in asdict(errors).items():
        if isinstance(value, Mapping) and value:
            plain[name] = {f"{level:g}": number for level, number in value.items()}
        elif not isinstance(value, Mapping) and value == value:
            plain[name] = value
    return plain
