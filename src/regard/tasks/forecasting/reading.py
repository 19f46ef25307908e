"""The series of a configuration, their parts in time and their scales, and what looks wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.tasks.forecasting import ForecastingConfig, SeriesDataConfig, SplitConfig
from regard.data import (
    Finding,
    Findings,
    LinearForecast,
    Series,
    SeriesTable,
    SeriesWindows,
    StandardScale,
    TimeSplit,
    WindowScale,
    read_series,
    split_by_counts,
    split_by_dates,
    split_by_fractions,
)
from regard.data.finding import by_severity
from regard.data.series import shown
from regard.data.time_split import Subset
from regard.errors import ConfigError, DataError

WINDOW_SCALES = {
    "none": None,
    "last": WindowScale("last"),
    "mean": WindowScale("mean"),
    "standard": WindowScale("mean", divide=True),
}
FIT_WINDOWS = 50_000
"""About the most windows that the ridge regression is fitted to; of more, every n-th."""
COLUMNS = ("file", "series", "step", "time")
"""The columns of a table of forecasts beside the targets."""
FEW_WINDOWS = 50
MUCH_MISSING = 0.5
"""A target of which more than this share is missing is reported."""
LONGEST_SEASON, NO_SEASON = 48, 12
"""The most steps of a horizon that follows from the data, and the steps if there is no season."""
HISTORY_SEASONS, HORIZON_SHARE, HISTORY_SHARE = 4, 20, 4
"""A history that follows from the data has four horizons, if that is at most a quarter of the training rows; a horizon
has at most a twentieth of all rows."""


@dataclass(frozen=True, eq=False)
class SeriesData:
    """The series that a model is trained on.

    Args:
        path: the file of the training series.
        table, split, scale: the series, their parts in time, and the scale of their training rows.
        held_out, held_out_split, held_out_scale: those of validations; without a file of their own the same series.
    """

    path: Path
    table: SeriesTable
    split: TimeSplit
    scale: StandardScale
    held_out: SeriesTable
    held_out_split: TimeSplit
    held_out_scale: StandardScale
    _fitted: dict[Any, LinearForecast] = field(default_factory=dict)

    def training_windows(self, data: SeriesDataConfig, *, stride: int | None = None) -> SeriesWindows:
        """The windows of the training part.

        Args:
            data: the configuration; its sizes are resolved.
            stride: that of the configuration if None.
        """
        return _windows(data, self.table, self.split, "train", self.scale, data.stride if stride is None else stride)

    def validation_windows(self, data: SeriesDataConfig, *, stride: int | None = None) -> SeriesWindows:
        """The windows of the validation part, or of the held-out file."""
        stride = data.dev_stride if stride is None else stride
        return _windows(data, self.held_out, self.held_out_split, "validation", self.held_out_scale, stride)

    def linear(self, config: ForecastingConfig) -> LinearForecast:
        """The ridge regression of the training windows, fitted once."""
        data, penalty = config.data, config.model.linear_penalty
        key = (data, penalty)
        if key not in self._fitted:
            stride = data.stride * max(1, len(self.training_windows(data)) // FIT_WINDOWS)
            self._fitted[key] = LinearForecast.fit(self.training_windows(data, stride=stride), penalty=penalty)
        return self._fitted[key]

    def check(self, data: SeriesDataConfig) -> Findings:
        """What looks wrong.

        Args:
            data: the configuration; its sizes are resolved.
        """
        findings = [Finding("info", f"train has {self.table}", sum(map(len, self.table.series)))]
        if self.held_out is not self.table:
            findings.append(Finding("info", f"dev has {self.held_out}", sum(map(len, self.held_out.series))))
        for name, table in {"train": self.table, "dev": self.held_out}.items():
            if name == "train" or table is not self.table:
                findings += [*_gaps(name, table), *_missing(name, table), *_constant(name, table)]
        findings += [*self._sizes(data)]
        return Findings(by_severity(findings))

    def _sizes(self, data: SeriesDataConfig) -> Iterator[Finding]:
        """Findings about series that are too short for the windows."""
        steps = f"{data.history:,} steps of history and {data.horizon:,} of the horizon"
        for part, split, table in (
            ("train", self.split, self.table),
            ("validation", self.held_out_split, self.held_out),
        ):
            subset: Subset = "train" if part == "train" else "validation"
            counts = [_count(split.rows(i, subset), data) for i in range(len(table.series))]
            total = sum(counts)
            if not total:
                yield Finding("error", f"no window of {steps} fits into the {part} part; lower data.horizon", 0)
                continue
            if part == "train" and total < FEW_WINDOWS:
                yield Finding("warning", f"{total:,} training windows of {steps} are too few to learn much from", total)
            if short := [series.name for series, count in zip(table.series, counts, strict=True) if not count]:
                yield Finding(
                    "warning",
                    f"{len(short):,} series are too short for a window in the {part} part and are left out there",
                    len(short),
                    tuple(map(repr, short[:3])),
                )


def read_material(data: SeriesDataConfig) -> SeriesData:
    """Reads the series, splits them, and fits their scale.

    Raises:
        ConfigError: for a split that does not fit the series.
        DataError: for files that cannot be read, or a target without training values.
    """
    table = read_table(data, data.train)
    split = _split(table, data.split)
    if data.dev is None:
        scale = StandardScale.fit(table, split)
        return SeriesData(data.train, table, split, scale, table, split, scale)
    split = TimeSplit(tuple((first, test, test, end) for first, _, test, end in split.bounds))
    scale = StandardScale.fit(table, split)
    dev = read_table(data, data.dev)
    if (dev.target_names, dev.known_names, dev.step) != (table.target_names, table.known_names, table.step):
        raise DataError(
            f"{data.dev}: targets {', '.join(dev.target_names)} at steps of {dev.step}; {data.train} has "
            f"{', '.join(table.target_names)} at steps of {table.step}."
        )
    whole = TimeSplit(tuple((0, 0, series.end, series.end) for series in dev.series))
    return SeriesData(data.train, table, split, scale, dev, whole, scale_of(dev, scale)[0])


def read_table(data: SeriesDataConfig, path: Path | str) -> SeriesTable:
    """The series of a file, as the configuration reads them.

    Raises:
        DataError: for what cannot be read, or a target that has the name of a column of forecasts.
    """
    table = read_series(
        path,
        time=data.time,
        series=data.series,
        targets=data.targets,
        known=data.known,
        wide=data.wide,
        fill_gaps=data.fill_gaps,
        time_format=data.time_format,
    )
    if taken := [name for name in table.target_names if name in COLUMNS]:
        raise DataError(f"{path}: rename the target {taken[0]!r}: tables of forecasts have a column of this name.")
    return table


def scale_of(table: SeriesTable, scale: StandardScale) -> tuple[StandardScale, tuple[str, ...]]:
    """The scales of a table's series, and the names of those that have no trained one.

    A series that was not there in training is scaled by all of its own values; a target without any by 0 and 1.
    """
    unknown = tuple(name for name in table.names if name not in scale.names)
    if not unknown:
        return scale.of(table.names), ()
    rows = []
    for series in table.series:
        if series.name in scale.names:
            known = scale.of([series.name])
        else:
            targets = np.where(np.isnan(series.targets).all(axis=0), 0.0, series.targets)
            known = StandardScale.fit(replace(table, series=(replace(series, targets=targets),)))
        rows.append((known.mean[0], known.deviation[0], known.known_mean[0], known.known_deviation[0]))
    return StandardScale(table.names, *(np.stack(parts) for parts in zip(*rows, strict=True))), unknown


def suggested_sizes(table: SeriesTable, split: TimeSplit) -> tuple[int, int]:
    """The steps of history and horizon for series of this length and season."""
    longest = max(series.end for series in table.series)
    train = max(end - start for start, end, *_ in split.bounds)
    period = table.step.period
    season = min(period, LONGEST_SEASON) if period > 1 else NO_SEASON
    horizon = max(1, min(season, longest // HORIZON_SHARE))
    return max(1, min(HISTORY_SEASONS * season, train // HISTORY_SHARE)), horizon


def _split(table: SeriesTable, config: SplitConfig) -> TimeSplit:
    """The parts of a table."""
    key = "counts" if config.counts is not None else "validation_from" if config.validation_from else "fractions"
    try:
        if config.counts is not None:
            return split_by_counts(table, config.counts)
        if config.validation_from is not None:
            latest = max(series.times[-1] for series in table.series)
            after = shown(table.step.after(latest, 1)[0])
            return split_by_dates(table, config.validation_from, config.test_from or after)
        return split_by_fractions(table, config.fractions)
    except DataError as error:
        raise ConfigError(str(error), ("data", "split", key)) from None


def _windows(
    data: SeriesDataConfig, table: SeriesTable, split: TimeSplit, part: Subset, scale: StandardScale, stride: int
) -> SeriesWindows:
    return SeriesWindows(
        table,
        history=data.history,
        horizon=data.horizon,
        stride=stride,
        split=split,
        part=part,
        scale=scale,
        window_scale=WINDOW_SCALES[data.window_scale],
        features=data.time_features,
    )


def _count(rows: range, data: SeriesDataConfig) -> int:
    """How many windows a part has room for."""
    return max(0, rows.stop - data.horizon - max(rows.start, data.history) + 1)


def _gaps(name: str, table: SeriesTable) -> Iterator[Finding]:
    """Rows without any value: left out of the file, or empty in it."""
    empty = [(series, np.flatnonzero(~series.observed[: series.end].any(axis=1))) for series in table.series]
    total = sum(len(rows) for _, rows in empty)
    if total:
        places = [_place(series, int(row)) for series, rows in empty for row in rows[:3]]
        text = f"{name}: {total:,} rows have no value or are left out of the file; they count as missing"
        yield Finding("warning", text, total, tuple(places[:3]))


def _missing(name: str, table: SeriesTable) -> Iterator[Finding]:
    """Missing values of rows that have some value, and targets that are mostly missing."""
    for number, target in enumerate(table.target_names):
        rows = [series.targets[: series.end][series.observed[: series.end].any(axis=1)] for series in table.series]
        total, missing = sum(map(len, rows)), sum(int(np.isnan(part[:, number]).sum()) for part in rows)
        if missing > MUCH_MISSING * total:
            text = f"{name}: {missing / total:.0%} of the values of {target!r} are missing"
            yield Finding("warning", text, missing)
        elif missing:
            yield Finding("info", f"{name}: {missing:,} values of {target!r} are missing", missing)


def _constant(name: str, table: SeriesTable) -> Iterator[Finding]:
    """Columns whose values never change."""
    for kind, names in (("targets", table.target_names), ("known", table.known_names)):
        for number, column in enumerate(names):
            constant = [series.name for series in table.series if _is_constant(getattr(series, kind)[:, number])]
            if constant:
                of = f" of {len(constant):,} series" if len(table.series) > 1 else ""
                yield Finding(
                    "warning",
                    f"{name}: the column {column!r}{of} is constant",
                    len(constant),
                    tuple(map(repr, constant[:3])) if len(table.series) > 1 else (),
                )


def _is_constant(values: np.ndarray) -> bool:
    observed = values[~np.isnan(values)]
    return len(observed) > 1 and bool((observed == observed[0]).all())


def _place(series: Series, row: int) -> str:
    return f"{series.name} {shown(series.times[row])}".strip()


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first names, in quotation marks."""
    return ", ".join(map(repr, names[:most])) + ", …" * (len(names) > most)
