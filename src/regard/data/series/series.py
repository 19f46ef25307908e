"""Time series at regular steps, with missing values and known inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.finding import Finding
from regard.data.series.calendar import Step
from regard.data.series.time_texts import NAIVE, Clock, TimeForm
from regard.data.series.zones import Times, zone_named
from regard.errors import DataError, counted

Values = NDArray[np.float64]
VALUE = "value"
"""The name of a target without a name, as in wide files."""


def title_of(name: str) -> str:
    """A series in messages, by its name."""
    return f"series {name!r}" if name else "the series"


@dataclass(frozen=True, eq=False)
class Series:
    """A series: a row for each step, without gaps between the rows.

    Args:
        name: empty for the only series of a file.
        times: (N,) datetime64[us], one step apart: instants in UTC if the clock has a zone, else as in the file.
        targets: (N, F) values to forecast; NaN where missing.
        known: (N, K) inputs that are known in advance, such as holidays; NaN where missing.
        clock: the calendar and the form of the times.
        lines: (N,) line numbers in the file, from 1; 0 for a row that was left out. None without a file.
    """

    name: str
    times: Times
    targets: Values
    known: Values
    clock: Clock = NAIVE
    lines: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.times)

    @property
    def observed(self) -> NDArray[np.bool_]:
        """(N, F) bool, True where a target is not missing."""
        return ~np.isnan(self.targets)

    @property
    def end(self) -> int:
        """The row after the last with an observed target; later rows have known inputs only."""
        rows = np.flatnonzero(self.observed.any(axis=1))
        return int(rows[-1]) + 1 if len(rows) else 0

    @property
    def title(self) -> str:
        """The series in messages."""
        return title_of(self.name)

    def shown(self, row: int) -> str:
        """The time of a row in messages."""
        return self.clock.shown(self.times[row])

    def stamp(self, row: int) -> str:
        """The time of a row in the form of the file."""
        return self.clock.texts(self.times[row, None], among=self.times)[0]


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """Series with the same targets, known inputs and step.

    Args:
        series: at least one, with distinct names.
        target_names, known_names: F and K names.
        step: the time between two rows.
        path: the file of the series; empty without one.
        notes: properties inferred from the file, such as the zone of its times.
    """

    series: tuple[Series, ...]
    target_names: tuple[str, ...]
    known_names: tuple[str, ...]
    step: Step
    path: str = ""
    notes: tuple[Finding, ...] = ()

    @classmethod
    def of(
        cls,
        targets: Mapping[str, Any],
        start: str,
        step: Step,
        *,
        names: Sequence[str] = (),
        known: Any = None,
        zone: str | None = None,
    ) -> SeriesTable:
        """A table of arrays in memory.

        Args:
            targets: (N, F) values by the name of each series, NaN where missing; (N,) for one target.
            start: the time of the first row of every series; a whole number if the step is one.
            names: F names of the targets; "value", or "target 0", "target 1", … if empty.
            known: (N, K) known inputs of every series.
            zone: the time zone of the calendar, such as Europe/Berlin.

        Raises:
            DataError: for no series, values of other shapes, or a start that is not a time.

        >>> print(SeriesTable.of({"shop": [3.0, np.nan, 4.0]}, "2024-01-01", Step(months=1)))
        1 series, 3 rows of 1 month, 2024-01-01 to 2024-03-01, 1 target, 1 missing value
        """
        arrays = {name: np.asarray(values, np.float64) for name, values in targets.items()}
        arrays = {name: values[:, None] if values.ndim == 1 else values for name, values in arrays.items()}
        sizes = {values.shape[1:] for values in arrays.values()}
        if len(sizes) != 1 or len(next(iter(sizes))) != 1 or any(not len(values) for values in arrays.values()):
            shapes = ", ".join(f"{name!r} {values.shape}" for name, values in arrays.items())
            raise DataError(
                f"Every series needs values (N, F) with N of at least 1 and the same F; got {shapes or 'none'}."
            )
        ((count,),) = sizes
        names = tuple(names) or ((VALUE,) if count == 1 else tuple(f"target {i}" for i in range(count)))
        if len(names) != count:
            raise DataError(f"There are {count} targets and {len(names)} names.")
        form = TimeForm(is_integer=True) if step.number else None
        clock = Clock(None if zone is None else zone_named(zone), form=form)
        try:
            first = clock.read(start)
        except ValueError:
            raise DataError(f"start must be a time, for example 2024-01-31 06:00; got {start!r}.") from None
        series, width = [], 0
        for name, values in arrays.items():
            inputs = np.zeros((len(values), 0)) if known is None else np.asarray(known, np.float64)
            if inputs.ndim != 2 or len(inputs) < len(values):
                raise DataError(
                    f"known must be (N, K) with at least the {len(values)} rows of {name!r}; got {inputs.shape}."
                )
            rows = np.full((len(inputs), count), np.nan)
            rows[: len(values)] = values
            times = np.concatenate([[first], step.after(first, len(rows) - 1, clock)])
            series.append(Series(name, times, rows, inputs, clock))
            width = inputs.shape[1]
        return cls(tuple(series), names, tuple(f"known {i}" for i in range(width)), step)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the series."""
        return tuple(series.name for series in self.series)

    @property
    def num_missing(self) -> int:
        """The number of missing targets before the end of their series."""
        return sum(int((~series.observed[: series.end]).sum()) for series in self.series)

    def place(self, series: Series, row: int) -> str:
        """The place of a row in messages: file and line, or series and time."""
        if series.lines is not None and series.lines[row]:
            return f"{self.path}:{series.lines[row]}"
        return f"{series.name} {series.shown(row)}".strip()

    def __str__(self) -> str:
        rows, targets = sum(map(len, self.series)), len(self.target_names)
        first = min(self.series, key=lambda series: series.times[0])
        last = max(self.series, key=lambda series: series.times[-1])
        return (
            f"{len(self.series):,} series, {counted(rows, 'row|rows')} of {self.step}, {first.shown(0)} to "
            f"{last.shown(-1)}, {counted(targets, 'target|targets')}, "
            f"{counted(self.num_missing, 'missing value|values')}"
        )
