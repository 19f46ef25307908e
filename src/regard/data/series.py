"""Time series at regular steps, read from CSV or Parquet, with what is missing and what is known in advance."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from regard.config.spelling import did_you_mean, nearest
from regard.data.calendar import Step, Times, find_step
from regard.data.defects import item_or_defect, readable
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.data.text_file import reason, regular
from regard.errors import DataError
from regard.lazy import optional

Values = NDArray[np.float64]
MISSING = frozenset(("", "na", "nan", "n/a", "null", "none", "?"))
"""What stands for a missing value, in lower case."""
PARQUET = (".parquet", ".pq")
DELIMITERS = ",;\t"
VALUE = "value"
"""The name of the target of every series of a wide file."""


@dataclass(frozen=True, eq=False)
class Series:
    """A series: a row for each step, without gaps between the rows.

    Args:
        name: its name; empty for the only series of a file.
        times: (N,) datetime64[us], one step apart.
        targets: (N, F) what is forecast; NaN where missing.
        known: (N, K) inputs that are known in advance, such as holidays; NaN where missing.
    """

    name: str
    times: Times
    targets: Values
    known: Values

    def __len__(self) -> int:
        return len(self.times)

    @property
    def observed(self) -> NDArray[np.bool_]:
        """(N, F) bool, True where a target is not missing."""
        return ~np.isnan(self.targets)

    @property
    def end(self) -> int:
        """The row after the last with an observed target; what follows has known inputs only."""
        rows = np.flatnonzero(self.observed.any(axis=1))
        return int(rows[-1]) + 1 if len(rows) else 0


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """Series with the same targets, known inputs and step.

    Args:
        series: at least one, with distinct names.
        target_names, known_names: F and K names.
        step: the time between two rows.
    """

    series: tuple[Series, ...]
    target_names: tuple[str, ...]
    known_names: tuple[str, ...]
    step: Step

    @classmethod
    def of(
        cls, targets: Mapping[str, Any], start: str, step: Step, *, names: Sequence[str] = (), known: Any = None
    ) -> SeriesTable:
        """A table of arrays in memory.

        Args:
            targets: (N, F) values by the name of each series, NaN where missing; (N,) is one target.
            start: the time of the first row of every series.
            step: the time between rows.
            names: F names of the targets; "value", or "target 0", "target 1", … if there are none.
            known: (N, K) known inputs of every series.

        Raises:
            DataError: for no series, or values of other shapes.

        >>> print(SeriesTable.of({"shop": [3.0, np.nan, 4.0]}, "2024-01-01", Step(months=1)))
        1 series, 3 rows of 1 month, 2024-01-01 to 2024-03-01, 1 target, 1 values missing
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
        series, first, width = [], parse_time(start), 0
        for name, values in arrays.items():
            inputs = np.zeros((len(values), 0)) if known is None else np.asarray(known, np.float64)
            if inputs.ndim != 2 or len(inputs) < len(values):
                raise DataError(
                    f"known must be (N, K) with at least the {len(values)} rows of {name!r}; got {inputs.shape}."
                )
            rows = np.full((len(inputs), count), np.nan)
            rows[: len(values)] = values
            times = np.concatenate([[first], step.after(first, len(rows) - 1)])
            series.append(Series(name, times, rows, inputs))
            width = inputs.shape[1]
        return cls(tuple(series), names, tuple(f"known {i}" for i in range(width)), step)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the series."""
        return tuple(series.name for series in self.series)

    @property
    def num_missing(self) -> int:
        """Targets that are missing before the end of their series."""
        return sum(int((~series.observed[: series.end]).sum()) for series in self.series)

    def __str__(self) -> str:
        rows, targets = sum(map(len, self.series)), len(self.target_names)
        first, last = min(s.times[0] for s in self.series), max(s.times[-1] for s in self.series)
        return (
            f"{len(self.series):,} series, {rows:,} rows of {self.step}, {shown(first)} to {shown(last)}, "
            f"{targets} target{'s' * (targets != 1)}, {self.num_missing:,} values missing"
        )


@dataclass(frozen=True, eq=False)
class _Rows:
    """A file's rows: times (N,), numbers (N, columns), the series' names (N,) or None, and the place of each row."""

    path: Path
    times: Times
    numbers: Values
    keys: NDArray[np.str_] | None
    place: Callable[[int], str]
    are_all: bool = True
    """Whether no row had to be left out."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns of a file are what."""

    time: str
    series: str | None
    numbers: tuple[str, ...]
    targets: tuple[str, ...]
    known: tuple[str, ...]


def read_series(
    path: Path | str,
    *,
    time: str | None = None,
    series: str | None = None,
    targets: Sequence[str] | None = None,
    known: Sequence[str] = (),
    wide: bool = False,
    step: Step | None = None,
    fill_gaps: bool = False,
    time_format: str | None = None,
) -> SeriesTable:
    """Reads series from a CSV file with a header, separated by commas, semicolons or tabs, or from a Parquet file.

    The step is found from the times. Values that are empty, NA, NaN, N/A, null, none or ? are missing. Rows of the
    future may stand at the end: known inputs without targets.

    Args:
        path: a file that ends in .parquet or .pq is Parquet, which needs `regard[series]`; any other is CSV.
        time: the column of the times; the first if None. ISO 8601 (also a month, 2024-01, or a year), or `time_format`.
        series: the column that names the series of each row; the rows of a series need not stand together.
        targets: the columns that are forecast; all others of the file if None.
        known: the columns that are known in advance.
        wide: whether every target column is a series of its own, whose only target is called "value".
        step: the time between rows, if the file has one row only.
        fill_gaps: whether rows that the file leaves out become rows of missing values.
        time_format: a format of `datetime.strptime`.

    Raises:
        DataError: for a file, column, number or time that cannot be read, times that are repeated, not sorted or
            between steps, and for gaps without `fill_gaps`; the text names file, line and value.
        UnsupportedError: for Parquet without its packages.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("day,shop,sold", "2024-01-01,a,3", "2024-01-02,a,NA", sep="\\n", file=file, flush=True)
    ...     print(read_series(file.name, series="shop"))
    1 series, 2 rows of 1 day, 2024-01-01 to 2024-01-02, 1 target, 0 values missing
    """
    path = Path(path)
    options = {"time": time, "series": series, "targets": targets, "known": known}
    if path.suffix.lower() in PARQUET:
        rows, columns = _read_parquet(path, time_format, **options)
    else:
        rows, columns = _read_csv(path, time_format, **options)
    if not len(rows.times):
        raise DataError(f"{path}: there are no rows after the header.")
    places = [columns.numbers.index(name) for name in columns.targets]
    known_places = [columns.numbers.index(name) for name in columns.known]
    groups = _groups(rows)
    groups = {name: _in_order(rows, name, group) for name, group in groups.items()}
    longest = max(groups.values(), key=len)
    if step is None:
        if len(longest) < 2:
            raise DataError(f"{path}: no series has two rows, so that their step is unknown; give it.")
        step = find_step(rows.times[longest])
    found = []
    for name, group in groups.items():
        group, at = _positions(rows, name, group, step, fill_gaps=fill_gaps or not rows.are_all)
        numbers = np.full((int(at[-1]) + 1, rows.numbers.shape[1]), np.nan)
        numbers[at] = rows.numbers[group]
        first = rows.times[group[0]]
        times = np.concatenate([[first], step.after(first, len(numbers) - 1)])
        found.append(Series(name, times, numbers[:, places], numbers[:, known_places]))
    if not wide:
        return SeriesTable(tuple(found), columns.targets, columns.known, step)
    if series is not None:
        raise DataError("In a wide file every target column is a series; leave out the column that names the series.")
    (table,) = found
    parts = (replace(table, name=name, targets=table.targets[:, [i]]) for i, name in enumerate(columns.targets))
    return SeriesTable(tuple(parts), (VALUE,), columns.known, step)


def shown(time: np.datetime64) -> str:
    """A time as text: its date, and the time of day unless it is midnight, with as many digits as it needs.

    >>> shown(np.datetime64("2024-01-01T06:00:00.000000")), shown(np.datetime64("2024-01-01T00:00"))
    ('2024-01-01 06:00:00', '2024-01-01')
    """
    moment = time.astype("datetime64[us]")
    if moment == moment.astype("datetime64[D]"):
        return str(moment.astype("datetime64[D]"))
    unit = "us" if moment != moment.astype("datetime64[s]") else "s"
    return str(moment.astype(f"datetime64[{unit}]")).replace("T", " ")


def parse_time(text: str, time_format: str | None = None) -> np.datetime64:
    """A time in UTC from ISO 8601 or a format of `strptime`; a time without an offset stays as it is.

    Raises:
        ValueError: if the text is no such time.

    >>> parse_time("2024-01-01T06:00+02:00"), parse_time("2024-03"), parse_time("01.02.2024", "%d.%m.%Y").item().month
    (np.datetime64('2024-01-01T04:00:00.000000'), np.datetime64('2024-03-01T00:00:00.000000'), 2)
    """
    text = text.strip()
    if time_format is not None:
        moment = datetime.strptime(text, time_format)
    elif len(text) == 4 and text.isdecimal():
        moment = datetime(int(text), 1, 1)
    elif len(text) == 7 and text[4] == "-":
        moment = datetime.fromisoformat(text + "-01")
    else:
        moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment, "us")


def _read_csv(path: Path, time_format: str | None, **options: Any) -> tuple[_Rows, _Columns]:
    lines = Lines(path, skip_blank=True)
    if not len(lines):
        raise DataError(f"{path}: the file is empty; it needs a header and rows.")
    delimiter = max(DELIMITERS, key=lines[0].count)
    header = tuple(name.strip() for name in _cells(lines, 0, delimiter))
    columns = _choose(path, header, **options)
    at_time, numbers_at = header.index(columns.time), [header.index(name) for name in columns.numbers]
    at_key = None if columns.series is None else header.index(columns.series)
    times = np.empty(len(lines) - 1, "datetime64[us]")
    numbers = np.full((len(times), len(numbers_at)), np.nan)
    keys = [""] * len(times)

    def read(row: int) -> None:
        cells = _cells(lines, row + 1, delimiter)
        place = f"{path}:{lines.number(row + 1)}"
        if len(cells) != len(header):
            raise DataError(f"{place}: {len(cells)} columns; the header has {len(header)}. {shorten(lines[row + 1])}")
        try:
            times[row] = parse_time(cells[at_time], time_format)
        except ValueError:
            expected = "ISO 8601, for example 2024-01-31 06:00" if time_format is None else repr(time_format)
            raise DataError(
                f"{place}: column {columns.time!r}: {shorten(cells[at_time])} is no time; expected {expected}.\n"
                "  The first column is the time if no other is named. Give the format of other times (time_format)."
            ) from None
        for column, at in enumerate(numbers_at):
            with item_or_defect:  # which leaves a missing value
                numbers[row, column] = _number(cells[at], place, header[at])
        if at_key is not None:
            keys[row] = cells[at_key].strip()

    kept = readable(len(times), read)
    names = np.array([keys[row] for row in kept]) if at_key is not None else None
    place: Callable[[int], str] = lambda row: f"{path}:{lines.number(kept[row] + 1)}"  # noqa: E731
    return _Rows(path, times[kept], numbers[kept], names, place, len(kept) == len(times)), columns


def _read_parquet(path: Path, time_format: str | None, **options: Any) -> tuple[_Rows, _Columns]:
    pandas = optional("pandas", f"{path}: Parquet needs", extra="series")
    optional("pyarrow", f"{path}: Parquet needs", extra="series")
    if not path.is_file():
        raise DataError(f"{path}: {reason(path, FileNotFoundError())}")
    try:
        frame = pandas.read_parquet(regular(path))
    except Exception as error:  # pyarrow raises many kinds for damaged files
        raise DataError(f"{path}: not a Parquet file ({error!s:.200}).") from None
    if not isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index()
    frame.columns = [str(name) for name in frame.columns]
    columns = _choose(path, tuple(frame.columns), **options)
    place: Callable[[int], str] = lambda row: f"{path}: row {row + 1}"  # noqa: E731
    moments = frame[columns.time]
    try:
        if not pandas.api.types.is_datetime64_any_dtype(moments):
            moments = pandas.Series([parse_time(str(text), time_format) for text in moments])
        if getattr(moments.dtype, "tz", None) is not None:
            moments = moments.dt.tz_convert("UTC").dt.tz_localize(None)
        times = moments.to_numpy("datetime64[us]")
    except ValueError as error:
        raise DataError(f"{path}: column {columns.time!r}: {error}; expected times.") from None
    if np.isnat(times).any():
        raise DataError(f"{place(int(np.isnat(times).argmax()))}: column {columns.time!r} has no time.")
    numbers = np.full((len(frame), len(columns.numbers)), np.nan)
    for at, name in enumerate(columns.numbers):
        if pandas.api.types.is_numeric_dtype(frame[name]):
            numbers[:, at] = frame[name].to_numpy(np.float64, na_value=np.nan)
        else:
            cells = ("" if pandas.isna(cell) else str(cell) for cell in frame[name])
            for row, cell in enumerate(cells):
                with item_or_defect:  # which leaves a missing value
                    numbers[row, at] = _number(cell, place(row), name)
    keys = None if columns.series is None else frame[columns.series].astype(str).to_numpy(np.str_)
    return _Rows(path, times, numbers, keys, place), columns


def _cells(lines: Lines, index: int, delimiter: str) -> list[str]:
    text = lines[index]
    if '"' not in text:
        return text.split(delimiter)
    try:
        (cells,) = csv.reader([text], delimiter=delimiter, strict=True)
    except (csv.Error, ValueError):
        raise DataError(f"{lines.path}:{lines.number(index)}: quotation marks do not match: {shorten(text)}") from None
    return cells


def _number(text: str, place: str, column: str) -> float:
    if (bare := text.strip()).lower() in MISSING:
        return np.nan
    try:
        number = float(bare)
    except ValueError:
        hint = " Decimals need a point." if "," in bare else ""
        raise DataError(
            f"{place}: column {column!r}: {shorten(text)} is no number; a missing value is empty or NA.{hint}"
        ) from None
    if not np.isfinite(number):
        raise DataError(f"{place}: column {column!r}: {shorten(text)} is not finite; a missing value is empty or NA.")
    return number


def _choose(
    path: Path,
    header: tuple[str, ...],
    *,
    time: str | None,
    series: str | None,
    targets: Sequence[str] | None,
    known: Sequence[str],
) -> _Columns:
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise DataError(f"{path}:1: the column {sorted(repeated)[0]!r} occurs twice.")
    time = header[0] if time is None else time
    wanted = [time, *([] if series is None else [series]), *known]
    for name in (*wanted, *(targets or ())):
        if name not in header:
            similar = nearest(name, header)
            hint = did_you_mean(similar) if similar else f"it has {shorten(', '.join(header))}."
            raise DataError(f"{path}:1: there is no column {name!r}; {hint}")
    chosen = tuple(name for name in header if name not in wanted) if targets is None else tuple(targets)
    twice = sorted({name for name in (*wanted, *chosen) if [*wanted, *chosen].count(name) > 1})
    if twice:
        raise DataError(f"{path}: the column {twice[0]!r} is named for two purposes; each column has one.")
    if not chosen:
        raise DataError(f"{path}:1: there is no column to forecast beside {', '.join(map(repr, wanted))}.")
    return _Columns(time, series, (*chosen, *known), chosen, tuple(known))


def _groups(rows: _Rows) -> dict[str, NDArray[np.intp]]:
    """The rows of each series in the order of the file; series in the order of their first rows."""
    if rows.keys is None:
        return {"": np.arange(len(rows.times))}
    names, first, inverse = np.unique(rows.keys, return_index=True, return_inverse=True)
    by_series = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse))[:-1])
    return {str(names[i]): by_series[i] for i in np.argsort(first)}


def _in_order(rows: _Rows, name: str, group: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows of a series whose times come after those of all rows before them; others are defects."""
    times = rows.times[group]
    wrong = np.flatnonzero(times[1:] <= np.maximum.accumulate(times)[:-1]) + 1
    for row in wrong.tolist():
        with item_or_defect:
            _refuse_order(rows, name, group, row)
    return np.delete(group, wrong)


def _refuse_order(rows: _Rows, name: str, group: NDArray[np.intp], row: int) -> NoReturn:
    times = rows.times[group]
    place, before = rows.place(int(group[row])), rows.place(int(group[row - 1]))
    of = f" of series {name!r}" if name else ""
    if times[row] == times[row - 1]:
        hint = "" if rows.keys is not None else "\n  Does a column name the series? Name it (series)."
        raise DataError(f"{place}: the time {shown(times[row])}{of} is repeated from {before}.{hint}")
    raise DataError(
        f"{place}: the time {shown(times[row])}{of} is before {shown(times[row - 1])} of {before}; "
        "sort the rows by time."
    )


def _positions(
    rows: _Rows, name: str, group: NDArray[np.intp], step: Step, *, fill_gaps: bool
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The rows of a series that are whole steps apart, and the step of each, (n,), from the first row."""
    times = rows.times[group]
    counts = step.counts(times)
    between = np.flatnonzero(counts != counts.round())
    of = f" of series {name!r}" if name else ""
    for row in between.tolist():
        with item_or_defect:
            raise DataError(
                f"{rows.place(int(group[row]))}: the time {shown(times[row])}{of} is no whole number of steps after "
                f"{shown(times[0])}; the step is {step}."
            )
    group, times = np.delete(group, between), np.delete(times, between)
    at: NDArray[np.int64] = np.delete(counts, between).astype(np.int64)
    gaps = np.flatnonzero(np.diff(at) > 1)
    if len(gaps) and not fill_gaps:
        row, missing = int(gaps[0]) + 1, int((np.diff(at) - 1).sum())
        with item_or_defect:  # which fills the gaps
            raise DataError(
                f"{rows.place(int(group[row]))}: the time {shown(times[row])}{of} is {int(at[row] - at[row - 1])} "
                f"steps of {step} after {shown(times[row - 1])}; {missing:,} rows are left out in {len(gaps):,} gaps.\n"
                "  With fill_gaps they become rows of missing values."
            )
    return group, at
