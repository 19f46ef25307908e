"""Reads and checks the series of a configuration, splits them in time, and fits their scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import Finding, Findings
from regard.data.finding import NUM_EXAMPLES, by_severity, too_few
from regard.data.series import (
    LinearForecast,
    Series,
    SeriesTable,
    SeriesWindows,
    StandardScale,
    Step,
    TimeSplit,
    WindowScale,
    read_series,
    split_by_counts,
    split_by_dates,
    split_by_fractions,
)
from regard.data.series.checks import check_minimum, check_values
from regard.data.series.split import Subset
from regard.errors import ConfigError, DataError, counted, first_of
from regard.runs.trained_items import DataItem
from regard.tasks.forecasting.config import ForecastingConfig, SeriesDataConfig, SplitConfig

WINDOW_SCALES = {
    "none": None,
    "last": WindowScale("last"),
    "mean": WindowScale("mean"),
    "standard": WindowScale("mean", divide=True),
}
FIT_WINDOWS = 50_000
"""The approximate number of windows from which on the ridge regression is fitted to every n-th."""
Seen = Mapping[str, tuple[np.datetime64, np.datetime64]]
"""By the name of a series the beginning and the end of the first rows that a model has not seen."""
PASSAGES = 4
"""The parts of a series from which former training windows are taken."""
COLUMNS = ("file", "series", "step", "time")
"""The columns of a table of forecasts before the targets."""
FEW_WINDOWS = 50
LONGEST_SEASON, NO_SEASON = 48, 12
"""The most steps of a horizon that follows from the data, and the steps without a season."""
HISTORY_SEASONS, HORIZON_SHARE, HISTORY_SHARE = 4, 20, 4
"""A history that follows from the data has four seasons, but at most a quarter of the training rows; a horizon has at
most a twentieth of all rows."""


@dataclass(frozen=True, eq=False)
class SeriesData:
    """The series of a training.

    Args:
        table, split, scale: the series, their parts in time, and the scale of their training rows.
        held_out, held_out_split, held_out_scale: those of validations; without a held-out file the same series.
        findings: about the reading and splitting of the series.
        seen: the rows that a model was trained on from which the training starts, as `SeriesFacts.seen`.
        learned: the ridge regression of that model; None if it is fitted to the training windows.
    """

    path: Path
    table: SeriesTable
    split: TimeSplit
    scale: StandardScale
    held_out: SeriesTable
    held_out_split: TimeSplit
    held_out_scale: StandardScale
    findings: tuple[Finding, ...] = ()
    seen: Seen = field(default_factory=dict)
    learned: LinearForecast | None = None
    _fitted: dict[Any, LinearForecast] = field(default_factory=dict)

    def training_windows(self, data: SeriesDataConfig, *, stride: int | None = None) -> SeriesWindows:
        """The windows of the training part.

        Args:
            data: the configuration with resolved sizes.
            stride: that of the configuration if None.
        """
        return _windows(data, self.table, self.split, "train", self.scale, data.stride if stride is None else stride)

    def validation_windows(self, data: SeriesDataConfig, *, stride: int | None = None) -> SeriesWindows:
        """The windows of the validation part, or of the held-out file."""
        stride = data.dev_stride if stride is None else stride
        return _windows(data, self.held_out, self.held_out_split, "validation", self.held_out_scale, stride)

    def linear(self, config: ForecastingConfig) -> LinearForecast:
        """The ridge regression of the training windows, fitted once, or that of the model that training starts from."""
        if self.learned is not None:
            return self.learned
        data, penalty = config.data, config.model.linear_penalty
        key = data.model_dump_json(), penalty
        if key not in self._fitted:
            stride = data.stride * max(1, len(self.training_windows(data)) // FIT_WINDOWS)
            self._fitted[key] = LinearForecast.fit(self.training_windows(data, stride=stride), penalty=penalty)
        return self._fitted[key]

    @property
    def num_rows(self) -> tuple[int, int]:
        """The rows for training and for validation."""
        return (
            sum(second - first for first, second, *_ in self.split.bounds),
            sum(third - second for _, second, third, _ in self.held_out_split.bounds),
        )

    def after(self, seen: Seen) -> SeriesData:
        """The same series, of which earlier rows than these are only histories of windows.

        The parts of the remaining rows have the shares that they had of all rows.

        Raises:
            DataError: if no series has later rows.
        """
        bounds = []
        for series, parts in zip(self.table.series, self.split.bounds, strict=True):
            until = seen[series.name][0] if series.name in seen else series.times[0]
            first = int(np.searchsorted(series.times[: series.end], until))
            share = (series.end - first) / max(series.end, 1)
            bounds.append(tuple(first + int(share * row + 1e-6) for row in parts))
        if all(first == last for first, *_, last in bounds):
            series = self.table.series[0]
            raise DataError(
                f"{self.path}: there is nothing new in it: {series.title} ends {series.shown(series.end - 1)}, and "
                f"the model has seen rows before {series.clock.shown(seen[series.name][0])}."
            )
        split = TimeSplit(tuple(bounds))
        return replace(self, split=split, held_out_split=split if self.held_out is self.table else self.held_out_split)

    def joined(self, other: SeriesData, *, train: float, dev: float) -> SeriesData:
        """With training windows and validation windows of other series, which may have the same names.

        The training windows are those of `PASSAGES` parts of the rows, evenly spaced.

        Args:
            train, dev: the shares of the rows of the other series.
        """
        former = [
            (series, (start, stop, stop, stop))
            for series, (first, second, *_) in zip(other.table.series, other.split.bounds, strict=True)
            for start, stop in _passages(first, second, train)
        ]
        validated = [
            (series, (second, second, second + round(dev * (third - second)), third))
            for series, (_, second, third, _) in zip(other.held_out.series, other.held_out_split.bounds, strict=True)
        ]
        own = TimeSplit(tuple((second, second, third, third) for _, second, third, _ in self.held_out_split.bounds))
        table, split = _with_series(self.table, self.split, former)
        held_out, held_out_split = _with_series(self.held_out, own, validated if dev else [])
        return replace(
            self,
            table=table,
            split=split,
            scale=self.scale.extended(other.scale),
            held_out=held_out,
            held_out_split=held_out_split,
            held_out_scale=self.scale.extended(self.held_out_scale).extended(other.held_out_scale).of(held_out.names),
        )

    def check(self, data: SeriesDataConfig) -> Findings:
        """Checks the series.

        Args:
            data: the configuration with resolved sizes.
        """
        findings = [Finding("info", f"train has {self.table}", sum(map(len, self.table.series)))]
        if self.held_out is not self.table:
            findings.append(Finding("info", f"dev has {self.held_out}", sum(map(len, self.held_out.series))))
        findings += self.findings
        for name, table in {"train": self.table, "dev": self.held_out}.items():
            if name == "train" or table is not self.table:
                findings += [replace(note, text=f"{name}: {note.text}") for note in table.notes]
                findings += check_values(name, table)
                findings += check_minimum(name, table, minimum_of(data, table.target_names))
        findings += [*self._sizes(data)]
        return Findings(by_severity(findings))

    def _sizes(self, data: SeriesDataConfig) -> Iterator[Finding]:
        """Findings about series that are too short for the windows."""
        steps = f"{data.history:,} steps of history and {data.horizon:,} of the horizon"
        parts: tuple[tuple[Subset, TimeSplit, SeriesTable], ...] = (
            ("train", self.split, self.table),
            ("validation", self.held_out_split, self.held_out),
        )
        for part, split, table in parts:
            counts = [_count(split.rows(i, part), data) for i in range(len(table.series))]
            total = sum(counts)
            if not total:
                yield Finding("error", f"no window of {steps} fits into the {part} part; lower data.horizon", 0)
                continue
            if part == "train":
                yield from too_few(total, 0, f"window|windows of {steps}", least=(FEW_WINDOWS, 0))
            if short := [series.name for series, count in zip(table.series, counts, strict=True) if not count]:
                text = f"series is|are too short for a window in the {part} part and is|are left out there"
                yield Finding("warning", counted(len(short), text), len(short), tuple(map(repr, short[:3])))


def read_material(data: SeriesDataConfig) -> SeriesData:
    """Reads the series, splits them, and fits their scale.

    Series without a value in their training rows are left out, with a warning.
    """
    table = read_table(data, data.train)
    minimum_of(data, table.target_names)
    if data.time_features and (table.step.rows or table.step.number):
        raise ConfigError(
            f"rows at steps of {table.step} have no calendar in the future; leave time_features out",
            ("data", "time_features"),
        )
    split = _split(table, data.split)
    if data.dev is not None:
        split = TimeSplit(tuple((first, test, test, end) for first, _, test, end in split.bounds))
    table, split, findings = _with_training_rows(table, split)
    scale = _fitted(table, split)
    if data.dev is None:
        return SeriesData(data.train, table, split, scale, table, split, scale, tuple(findings))
    dev = read_table(data, data.dev)
    if (dev.target_names, dev.known_names, dev.step) != (table.target_names, table.known_names, table.step):
        raise DataError(
            f"{data.dev}: targets {', '.join(dev.target_names)} at steps of {dev.step}; {data.train} has "
            f"{', '.join(table.target_names)} at steps of {table.step}."
        )
    whole = TimeSplit(tuple((0, 0, series.end, series.end) for series in dev.series))
    return SeriesData(data.train, table, split, scale, dev, whole, scale_of(dev, scale)[0], tuple(findings))


def _passages(first: int, last: int, share: float) -> list[tuple[int, int]]:
    """Ranges of rows that together have a share of those from `first` to `last`, evenly spaced."""
    if share >= 1:
        return [(first, last)]
    size = round(share * (last - first) / PASSAGES)
    starts = np.linspace(first, last - size, PASSAGES).astype(int).tolist()
    return [(start, start + size) for start in starts] if size else []


def _with_series(
    table: SeriesTable, split: TimeSplit, further: Sequence[tuple[Series, tuple[int, ...]]]
) -> tuple[SeriesTable, TimeSplit]:
    """A table and its split with further series, each with its bounds."""
    series = (*table.series, *(each for each, _ in further))
    return replace(table, series=series), TimeSplit((*split.bounds, *(bounds for _, bounds in further)))


def minimum_of(data: SeriesDataConfig, targets: Sequence[str]) -> dict[str, float]:
    """The least forecasts of targets, by name."""
    if data.minimum is None:
        return {}
    if isinstance(data.minimum, float | int):
        return dict.fromkeys(targets, float(data.minimum))
    if unknown := [name for name in data.minimum if name not in targets]:
        raise ConfigError(f"there is no target {unknown[0]!r}; targets are {listed(targets)}", ("data", "minimum"))
    return {name: float(least) for name, least in data.minimum.items()}


def _with_training_rows(table: SeriesTable, split: TimeSplit) -> tuple[SeriesTable, TimeSplit, list[Finding]]:
    """The series with a value in their training rows, and findings about the others."""
    parts = [series.observed[first:second] for series, (first, second, *_) in zip(table.series, split.bounds)]
    observed = np.stack([part.any(axis=0) for part in parts])
    for number, target in enumerate(table.target_names):
        if not observed[:, number].any():
            rows = max(second - first for first, second, *_ in split.bounds)
            of = f" of {len(table.series):,} series" if len(table.series) > 1 else ""
            raise DataError(
                f"{table.path}: the target {target!r}{of} has no value in the training rows (of the longest series, "
                f"the first {rows:,}); see data.split, or leave it out of data.targets."
            )

    def finding(text: str, series: Sequence[Series]) -> Finding:
        places = tuple(f"{each.title} of {table.place(each, 0)}" for each in series[:NUM_EXAMPLES])
        return Finding("warning", f"train: {text}", len(series), places)

    trained, findings = [i for i, each in enumerate(observed) if each.any()], []
    if out := [series for i, series in enumerate(table.series) if not observed[i].any()]:
        text = counted(len(out), "series has|have no value in its|their training rows and is|are left out")
        findings.append(finding(text, out))
    for number, target in enumerate(table.target_names):
        if missing := [table.series[i] for i in trained if not observed[i][number]]:
            text = (
                f"the target {target!r} of {len(missing):,} series has no value in the training rows; it is not "
                "trained there, and is scaled by its later values"
            )
            findings.append(finding(text, missing))
    split = TimeSplit(tuple(split.bounds[i] for i in trained))
    return replace(table, series=tuple(table.series[i] for i in trained)), split, findings


def rows_of(table: SeriesTable, split: TimeSplit, part: Subset) -> Iterator[DataItem]:
    """The rows of a part with an observed value, as items: series and time, and the values."""
    for index, series in enumerate(table.series):
        for row in split.rows(index, part):
            if series.observed[row].any():
                values = " ".join(map(str, series.targets[row].tolist()))
                yield DataItem(table.place(series, row), f"{series.name} {series.times[row]}", (values,))


def read_table(
    data: SeriesDataConfig, path: Path | str, *, step: Step | None = None, zones: Mapping[str, str] | str | None = None
) -> SeriesTable:
    """The series of a file, read by a configuration.

    Args:
        step: the time between rows, if it is known.
        zones: the zone of earlier rows, or the zones of series by name, if they are known.
    """
    table = read_series(
        path,
        time=False if data.numbered_rows else data.time,
        series=data.series,
        targets=data.targets,
        known=data.known,
        wide=data.wide,
        step=step or data.step,
        fill_gaps=data.fill_gaps,
        time_format=data.time_format,
        zone=data.time_zone,
        zones=zones,
        missing_values=data.missing_values,
        decimal=data.decimal,
        header=data.header,
    )
    if taken := [name for name in table.target_names if name in COLUMNS]:
        raise DataError(f"{path}: rename the target {taken[0]!r}: tables of forecasts have a column of this name.")
    return table


def scale_of(table: SeriesTable, scale: StandardScale) -> tuple[StandardScale, tuple[str, ...]]:
    """The scales of a table's series, and the names of the series that training did not have.

    A series that training did not have is scaled by all of its own values; a target without values by 0 and 1.
    """
    unknown = tuple(name for name in table.names if name not in scale.names)
    if not unknown:
        return scale.of(table.names), ()
    own = _fitted(table)
    rows = []
    for name in table.names:
        known = (scale if name in scale.names else own).of([name])
        rows.append((known.mean[0], known.deviation[0], known.known_mean[0], known.known_deviation[0]))
    return StandardScale(table.names, *(np.stack(parts) for parts in zip(*rows, strict=True))), unknown


def _fitted(table: SeriesTable, split: TimeSplit | None = None) -> StandardScale:
    """The scale of the training rows of series.

    A target without values in these rows is scaled by all values of its series, and without any by 0 and 1.
    """

    def filled(rows: Sequence[slice]) -> SeriesTable:
        series = []
        for each, part in zip(table.series, rows, strict=True):
            is_empty = np.isnan(each.targets[part]).all(axis=0)
            series.append(replace(each, targets=np.where(is_empty, 0.0, each.targets)))
        return replace(table, series=tuple(series))

    own = StandardScale.fit(filled([slice(series.end) for series in table.series]))
    if split is None:
        return own
    rows = [slice(first, second) for first, second, *_ in split.bounds]
    scale = StandardScale.fit(filled(rows), split)
    is_empty = np.stack([np.isnan(s.targets[part]).all(axis=0) for s, part in zip(table.series, rows, strict=True)])
    mean, deviation = np.where(is_empty, own.mean, scale.mean), np.where(is_empty, own.deviation, scale.deviation)
    return replace(scale, mean=mean, deviation=deviation)


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
            return split_by_dates(table, config.validation_from, config.test_from)
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
    """The number of windows that fit into a part."""
    return max(0, rows.stop - data.horizon - max(rows.start, data.history) + 1)


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first names, in quotation marks."""
    return first_of(list(map(repr, names)), most)
