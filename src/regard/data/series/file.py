"""Series from CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.config.spelling import suggestion
from regard.data.defects import item_or_defect, readable
from regard.data.finding import Finding
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.data.series.calendar import Step, find_step, most_frequent, parse_step
from regard.data.series.cells import CellTable, Decimal, NumberReader, is_number, is_time, open_table
from regard.data.series.series import VALUE, Series, SeriesTable, Values
from regard.data.series.time_texts import INTEGER, Clock, TimeForm, finest, formats_of, is_moment, read_moment
from regard.data.series.zones import (
    HOUR,
    UNNAMED,
    Offsets,
    Times,
    Zone,
    find_zone,
    fixed_zone,
    offset_text,
    some_of,
    zone_named,
    zones_repeating,
)
from regard.data.text_file import reason, regular
from regard.errors import DataError, counted, first_of
from regard.lazy import optional

PARQUET = (".parquet", ".pq")
NAMELESS = ("", "index")
"""Names of index columns, besides names that begin with "Unnamed: "."""
MOST_FILLED = 5_000_000
"""The most rows that gaps may become."""
YEARS = range(1000, 3000)
"""Whole numbers of four digits that are years."""


def read_series(
    path: Path | str,
    *,
    time: str | Literal[False] | None = None,
    series: str | None = None,
    targets: Sequence[str] | None = None,
    known: Sequence[str] = (),
    wide: bool = False,
    step: Step | str | None = None,
    fill_gaps: bool = False,
    time_format: str | None = None,
    zone: str | None = None,
    zones: Mapping[str, str] | str | None = None,
    missing_values: Sequence[float | str] = (),
    decimal: Decimal | None = None,
    header: bool | None = None,
) -> SeriesTable:
    """Reads series from a CSV file, separated by commas, semicolons, tabs or vertical bars, or from a Parquet file.

    Step, zone, delimiter, header and decimal mark are inferred from the file; `notes` of the table lists them. Values
    that are empty, NA, NaN, N/A, null, none, - or ? are missing. Future rows may follow, with known inputs only.

    Times may have offsets from UTC, or names of zones. A series with changing offsets gets the zone of the IANA
    database that has all of them. Whole numbers that are neither years nor dates count steps.

    Args:
        path: a file that ends in .parquet or .pq is Parquet, which needs `regard[series]`; any other is CSV.
        time: the column of the times; the first after a nameless index column if None; False if there is none, so that
            rows are numbered. ISO 8601 (also a month, 2024-01, a quarter, 2024Q1, a week, 2024-W05, or a year), or
            `time_format`.
        series: the column with the name of each row's series; the rows of a series need not be adjacent.
        targets: the columns to forecast; all others of the file if None.
        known: the columns that are known in advance.
        wide: whether every target column is a separate series, with the single target "value".
        step: the time between rows, also as a text of `parse_step`, such as "rows" or "business_days".
        fill_gaps: whether rows that the file leaves out become rows of missing values.
        time_format: a format of `datetime.strptime`.
        zone: the zone of the calendar, such as Europe/Berlin; times without an offset are local times of it.
        zones: the zone of earlier rows of the series, or zones by the name of a series; other rows may differ.
        missing_values: numbers and texts that mean missing values, such as -9999.
        decimal: the decimal mark.
        header: whether the first line names the columns; otherwise they are "column 1", "column 2", …

    Raises:
        DataError: for a file, column, number or time that cannot be read, times that are repeated, unsorted or between
            steps, and for gaps without `fill_gaps`; the text names file, line and value.
        UnsupportedError: for Parquet without its packages.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("day,shop,sold", "2024-01-01,a,3", "2024-01-02,a,NA", sep="\\n", file=file, flush=True)
    ...     print(read_series(file.name, series="shop"))
    1 series, 2 rows of 1 day, 2024-01-01 to 2024-01-02, 1 target, 0 missing values
    """
    path = Path(path)
    if wide and series is not None:
        raise DataError("In a wide file every target column is a series; leave out the column that names the series.")
    if time is False and time_format is not None:
        raise DataError("Without a column of times (time) there is no format of times; leave time_format out.")
    names = {"time": time, "series": series, "targets": targets, "known": known}
    if path.suffix.lower() in PARQUET:
        rows = _read_parquet(path, time_format, missing_values, decimal, names)
    else:
        rows = _read_csv(path, time_format, missing_values, decimal, header, names)
    if not len(rows):
        raise DataError(f"{path}: there are no rows after the header.")
    notes = rows.notes
    _replace_codes(rows, missing_values)
    groups = _groups(rows)
    default = None if zone is None else zone_named(zone)
    read: dict[str, tuple[Times, Clock]] = {}
    for name, group in tuple(groups.items()):
        if rows.columns.time is None:
            rows.wall[group] = np.arange(len(group)).astype("datetime64[us]")
        earlier = zones if isinstance(zones, str) else (zones or {}).get(name)
        group, times, clock = _instants(rows, group, default, earlier)
        group, times = _in_order(rows, name, group, times, clock)
        if len(group):
            groups[name], read[name] = group, (times, clock)
        else:
            del groups[name]
    if not groups:
        raise DataError(f"{path}: no row has a time that can be read.")
    if zone is None and rows.offsets is not None and rows.zones is None:
        names_of_zones = list(dict.fromkeys(str(clock.zone) for _, clock in read.values() if clock.zone is not None))
        text = f"the calendar is that of {first_of(names_of_zones)}, inferred from the offsets of times"
        notes.append(_note(f"{text} (data.time_zone)"))
    times, clock = max(read.values(), key=lambda entry: len(entry[0]))
    if isinstance(step, str):
        step = parse_step(step, times, clock)
    elif step is None:
        if len(times) < 2:
            raise DataError(f"{path}: no series has two rows, so their step is unknown; set it (data.step).")
        step = find_step(times, clock)
        if step.business and not step.months:
            notes.append(_note("the step is a business day, as no row is on a Saturday or Sunday (data.step)"))
        elif clock.is_integer and rows.columns.time is not None:
            notes.append(_note("times are whole numbers, which have no calendar"))
    if bool(step.number) != clock.is_integer and not step.rows:
        kind = "whole numbers" if clock.is_integer else "dates"
        raise DataError(f"{path}: times are {kind}; rows at steps of {step} are expected.")
    at_targets = [rows.columns.numbers.index(name) for name in rows.columns.targets]
    at_known = [rows.columns.numbers.index(name) for name in rows.columns.known]
    tables, filled = [], 0
    for name, group in groups.items():
        times, clock = read[name]
        fills = fill_gaps or not rows.are_all
        group, times, at = _positions(rows, name, group, times, clock, step, fill_gaps=fills)
        count = int(at[-1]) + 1
        filled += count - len(at)
        if filled > MOST_FILLED:
            raise DataError(
                f"{rows.place(int(group[-1]))}: {filled:,} rows would be filled in between those of the file, more "
                f"than {MOST_FILLED:,}. Is a time wrong, or the step, {step} (data.step)?"
            )
        numbers = np.full((count, rows.numbers.shape[1]), np.nan)
        numbers[at] = rows.numbers[group]
        lines = np.zeros(count, np.int64)
        lines[at] = rows.lines[group]
        grid = times if step.rows else step.grid(times, count, clock)
        tables.append(Series(name, grid, numbers[:, at_targets], numbers[:, at_known], clock, lines))
    columns = rows.columns
    if not wide:
        return SeriesTable(tuple(tables), columns.targets, columns.known, step, str(path), tuple(notes))
    (table,) = tables
    parts = (replace(table, name=name, targets=table.targets[:, [i]]) for i, name in enumerate(columns.targets))
    return SeriesTable(tuple(parts), (VALUE,), columns.known, step, str(path), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a file by purpose."""

    time: str | None
    series: str | None
    numbers: tuple[str, ...]
    targets: tuple[str, ...]
    known: tuple[str, ...]


@dataclass(eq=False)
class _Rows:
    """The rows of a file.

    Args:
        numbers: (N, columns).
        keys: (N,) the names of the series, or None.
        lines: (N,) line numbers.
        place: a function for the place of a row in messages.
        notes: findings about the file.
        wall: (N,) times without offsets; row numbers until times are read.
        offsets: (N,) microseconds, or None for times without offsets.
        zones: (N,) names of zones, or None.
        form: the form of written times.
        texts: a function for the text of a row's time.
        are_all: whether no row was left out.
    """

    path: Path
    columns: _Columns
    numbers: Values
    keys: NDArray[np.str_] | None
    lines: NDArray[np.int64]
    place: Callable[[int], str]
    notes: list[Finding] = field(default_factory=list)
    wall: Times = field(init=False)
    offsets: Offsets | None = field(default=None, init=False)
    zones: NDArray[np.str_] | None = field(default=None, init=False)
    form: TimeForm | None = field(default_factory=lambda: TimeForm(is_integer=True), init=False)
    texts: Callable[[int], str] = field(default=str, init=False)
    are_all: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.wall = np.arange(len(self)).astype("datetime64[us]")

    def __len__(self) -> int:
        return len(self.lines)

    def select(self, indices: list[int]) -> None:
        """Leaves out other rows, which are defects."""
        if len(indices) == len(self):
            return
        at, texts, place = np.array(indices, np.intp), self.texts, self.place
        self.wall, self.numbers, self.lines = self.wall[at], self.numbers[at], self.lines[at]
        self.offsets = None if self.offsets is None else self.offsets[at]
        self.zones = None if self.zones is None else self.zones[at]
        self.keys = None if self.keys is None else self.keys[at]
        self.texts, self.place = lambda row: texts(indices[row]), lambda row: place(indices[row])
        self.are_all = False


# Files


def _read_csv(
    path: Path,
    time_format: str | None,
    missing_values: Sequence[float | str],
    decimal: Decimal | None,
    header: bool | None,
    names: Mapping[str, Any],
) -> _Rows:
    lines = Lines(path, skip_blank=True)
    if not len(lines):
        raise DataError(f"{path}: the file is empty; it needs a header and rows.")
    wanted = [names["time"], names["series"], *(names["targets"] or ()), *names["known"]]
    table = open_table(lines, header=header, time_format=time_format, names=[name for name in wanted if name])
    notes = []
    if not table.has_header and header is None:
        named = f"{table.header[0]!r} to {table.header[-1]!r}"
        notes.append(_note(f"line {table.line(0)} has times or numbers and is not a header; columns are {named}"))
    if table.delimiter != "," or table.first > 1:
        shown_delimiter = {"\t": "tabs", ";": "semicolons", "|": "vertical bars"}.get(table.delimiter, table.delimiter)
        notes.append(_note(f"columns are separated by {shown_delimiter}"))
    columns, left_out = _choose(path, table, time_format, **names)
    notes += [
        _note(f"the column {name or 'without a name'} is an index or empty, and is left out") for name in left_out
    ]
    at_numbers = [table.header.index(name) for name in columns.numbers]
    at_time = None if columns.time is None else table.header.index(columns.time)
    at_key = None if columns.series is None else table.header.index(columns.series)
    texts, keys = [""] * len(table), [""] * len(table)
    numbers = np.full((len(table), len(at_numbers)), np.nan)
    reader = NumberReader(columns.numbers, missing_values, decimal)

    def read(row: int) -> None:
        cells, place = table.cells(row), table.place(row)
        if at_time is not None:
            texts[row] = cells[at_time].strip()
        if at_key is not None:
            keys[row] = cells[at_key].strip()
        for column, at in enumerate(at_numbers):
            with item_or_defect:  # which leaves a missing value
                numbers[row, column] = reader.read(row, column, cells[at], place)

    readable_rows = readable(len(table), read)
    if note := reader.finish(numbers):
        notes.append(_note(note))
    numbered = np.array([table.line(row) for row in range(len(table))], np.int64)
    rows = _Rows(path, columns, numbers, None if at_key is None else np.array(keys), numbered, table.place, notes)
    rows.select(readable_rows)
    if at_time is not None:
        _read_times(rows, [texts[row] for row in readable_rows], time_format)
    return rows


def _read_parquet(
    path: Path,
    time_format: str | None,
    missing_values: Sequence[float | str],
    decimal: Decimal | None,
    names: Mapping[str, Any],
) -> _Rows:
    pandas = optional("pandas", f"{path}: Parquet needs", extra="series")
    optional("pyarrow", f"{path}: Parquet needs", extra="series")
    if not path.is_file():
        raise DataError(f"{path}: {reason(path, FileNotFoundError())}")
    try:
        frame = pandas.read_parquet(regular(path))
    except Exception as error:  # pyarrow raises various errors for damaged files
        raise DataError(f"{path}: not a Parquet file ({error!s:.200}).") from None
    if not isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index()
    frame.columns = [str(name) for name in frame.columns]
    columns, _ = _choose(path, tuple(frame.columns), time_format, **names)

    def place(row: int) -> str:
        return f"{path}: row {row + 1}"

    reader = NumberReader(columns.numbers, missing_values, decimal)
    numbers = np.full((len(frame), len(columns.numbers)), np.nan)
    for at, name in enumerate(columns.numbers):
        if pandas.api.types.is_numeric_dtype(frame[name]):
            numbers[:, at] = frame[name].to_numpy(np.float64, na_value=np.nan)
            if np.isinf(numbers[:, at]).any():
                row = int(np.isinf(numbers[:, at]).argmax())
                raise DataError(f"{place(row)}: column {name!r}: {numbers[row, at]} is not finite.")
        else:
            cells = ("" if pandas.isna(cell) else str(cell) for cell in frame[name])
            for row, cell in enumerate(cells):
                with item_or_defect:  # which leaves a missing value
                    numbers[row, at] = reader.read(row, at, cell, place(row))
    reader.finish(numbers)
    keys = None if columns.series is None else frame[columns.series].astype(str).to_numpy(np.str_)
    rows = _Rows(path, columns, numbers, keys, np.arange(len(frame)) + 1, place)
    if columns.time is None:
        return rows
    moments = frame[columns.time]
    if moments.isna().any():
        raise DataError(f"{place(int(moments.isna().to_numpy().argmax()))}: column {columns.time!r} has no time.")
    if not pandas.api.types.is_datetime64_any_dtype(moments):
        _read_times(rows, [str(text) for text in moments], time_format)
        return rows
    rows.texts = lambda row: str(moments.iloc[row])
    if (tz := getattr(moments.dtype, "tz", None)) is None:
        rows.wall, rows.form = moments.to_numpy("datetime64[us]"), None
        return rows
    instants = moments.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy("datetime64[us]")
    rows.wall = moments.dt.tz_localize(None).to_numpy("datetime64[us]")
    rows.offsets = (rows.wall - instants).astype(np.int64)
    rows.form = TimeForm("s", offset="+hh:mm")
    key = getattr(tz, "key", None) or getattr(tz, "zone", None)
    rows.zones = None if key is None else np.full(len(frame), key)
    return rows


def _read_times(rows: _Rows, texts: list[str], time_format: str | None) -> None:
    """Reads the times of rows, and their form."""
    rows.texts = texts.__getitem__
    column = rows.columns.time
    if time_format is None and _are_counts(texts):
        try:
            rows.wall = np.array([int(text) for text in texts], np.int64).astype("datetime64[us]")
        except OverflowError:
            raise DataError(f"{rows.path}: column {column!r} has whole numbers that are too large for times.") from None
        return
    if time_format is None and texts and not is_moment(texts[0]):
        formats = formats_of(texts)
        if len(formats) > 1:
            either = " or ".join(map(repr, formats))
            raise DataError(
                f"{rows.place(0)}: column {column!r}: {shorten(texts[0])} may be a time of the format {either}; set "
                "data.time_format to the right one."
            )
        if formats:
            (time_format,) = formats
            rows.notes.append(_note(f"times are of the format {time_format!r} (data.time_format)"))
    count = len(texts)
    rows.wall = np.empty(count, "datetime64[us]")
    offsets, has_offset = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    zones, forms = [""] * count, [TimeForm()] * count

    def read(row: int) -> None:
        try:
            moment = read_moment(texts[row], time_format)
            rows.wall[row] = np.datetime64(moment.wall, "us")
        except (ValueError, IndexError):
            raise _not_a_time(rows, row, time_format) from None
        if moment.offset is not None:
            offsets[row], has_offset[row] = moment.offset, True
        zones[row], forms[row] = moment.zone, moment.form

    indices = readable(count, read)
    rows.form = finest(list(dict.fromkeys(forms[row] for row in indices))) if indices else None
    rows.offsets = offsets if has_offset.any() else None
    rows.zones = np.array(zones) if any(zones) else None
    rows.select(indices)
    has_offset = has_offset[indices]
    if has_offset.any() and not has_offset.all():
        row, other = int(has_offset.argmin()), int(has_offset.argmax())
        raise DataError(
            f"{rows.place(row)}: the time {rows.texts(row)!r} has no offset from UTC, and {rows.texts(other)!r} of "
            f"{rows.place(other)} has one."
        )


def _not_a_time(rows: _Rows, row: int, time_format: str | None) -> DataError:
    text = rows.texts(row)
    expected = "ISO 8601, for example 2024-01-31 06:00" if time_format is None else repr(time_format)
    hint = "Times are in the first column or in data.time; data.time_format is the format of other times"
    if is_number(text):
        hint += "; without a column of times, set data.numbered_rows"
    column = f"{rows.place(row)}: column {rows.columns.time!r}"
    return DataError(f"{column}: {shorten(text)} is not a time; expected {expected}.\n  {hint}.")


def _are_counts(texts: list[str]) -> bool:
    """Whether times are whole numbers other than years, months (202401) or days (20240131)."""
    if not texts or not all(INTEGER.fullmatch(text) for text in texts):
        return False
    if all(len(text) == 4 and int(text) in YEARS for text in texts):
        return False
    return not all(len(text) in (6, 8) and int(text[:4]) in YEARS and is_moment(text) for text in texts)


def _replace_codes(rows: _Rows, missing_values: Sequence[float | str]) -> None:
    """Replaces numbers that mean missing values by NaN, and notes their counts."""
    for code in missing_values:
        if isinstance(code, str):
            continue
        matches = rows.numbers == code
        if not matches.any():
            rows.notes.append(Finding("warning", f"no value is {code:g} (data.missing_values)", 0))
        for column in np.flatnonzero(matches.any(axis=0)):
            count, first = int(matches[:, column].sum()), int(matches[:, column].argmax())
            text = f"{rows.columns.numbers[column]!r} is {code:g} in {counted(count, 'row|rows')}, counted as missing"
            rows.notes.append(Finding("info", text, count, (rows.place(first),)))
        rows.numbers[matches] = np.nan


def _choose(
    path: Path,
    table: CellTable | tuple[str, ...],
    time_format: str | None,
    *,
    time: str | Literal[False] | None,
    series: str | None,
    targets: Sequence[str] | None,
    known: Sequence[str],
) -> tuple[_Columns, list[str]]:
    """The columns by purpose, and the index columns to leave out."""
    header = table.header if isinstance(table, CellTable) else table
    place = f"{path}:1" if isinstance(table, CellTable) else f"{path}"
    used = {time, series, *known, *(targets or ())}
    left_out = []
    if isinstance(table, CellTable) and table.has_header:
        left_out = [name for name in dict.fromkeys(header) if name not in used and _is_index(table, name, time_format)]
    header = tuple(name for name in header if name not in left_out)
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise DataError(f"{place}: the column {min(repeated)!r} occurs twice.")
    if time is None:
        time = header[0]
    wanted = [*([] if time is False else [time]), *([] if series is None else [series]), *known]
    for name in (*wanted, *(targets or ())):
        if name not in header:
            hint = suggestion(name, header, f"it has {shorten(', '.join(header))}.")
            raise DataError(f"{place}: no column {name!r}; {hint}")
    chosen = tuple(name for name in header if name not in wanted) if targets is None else tuple(targets)
    twice = sorted({name for name in (*wanted, *chosen) if [*wanted, *chosen].count(name) > 1})
    if twice:
        raise DataError(f"{path}: the column {twice[0]!r} is named for two purposes; name it for one.")
    if not chosen:
        raise DataError(f"{place}: there is no column to forecast beside {', '.join(map(repr, wanted))}.")
    return _Columns(None if time is False else time, series, (*chosen, *known), chosen, tuple(known)), left_out


def _is_index(table: CellTable, name: str, time_format: str | None) -> bool:
    """Whether a nameless column is empty, or numbers the rows of a file with another column of times."""
    if name.lower() not in NAMELESS and not name.startswith("Unnamed: "):
        return False
    places = [at for at, other in enumerate(table.header) if other == name]
    rows = [table.cells(row) for row in range(min(len(table), 50))]
    if name == "" and all(not row[at].strip() for row in rows for at in places):
        return True
    if len(places) > 1 or not rows:
        return False
    (at,) = places
    cells = [row[at].strip() for row in rows]
    if cells[0] not in ("0", "1") or cells != [str(int(cells[0]) + i) for i in range(len(rows))]:
        return False
    if table.cells(len(table) - 1)[at].strip() != str(int(cells[0]) + len(table) - 1):
        return False
    others = [cell.strip() for position, cell in enumerate(rows[0]) if position != at]
    return any(not is_number(cell) and is_time(cell, time_format) for cell in others)


# Times


def _groups(rows: _Rows) -> dict[str, NDArray[np.intp]]:
    """The rows of each series in the order of the file, with series in the order of their first rows."""
    if rows.keys is None:
        return {"": np.arange(len(rows))}
    names, first, inverse = np.unique(rows.keys, return_index=True, return_inverse=True)
    by_series = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse))[:-1])
    return {str(names[i]): by_series[i] for i in np.argsort(first)}


def _instants(
    rows: _Rows, group: NDArray[np.intp], configured: Zone | None, earlier: str | None
) -> tuple[NDArray[np.intp], Times, Clock]:
    """The rows of a series, their times, in UTC if they have a zone, and its clock.

    Args:
        configured: the zone of the configuration.
        earlier: the name of the zone of earlier rows of the series.
    """
    wall, form = rows.wall[group], rows.form
    if form is not None and form.is_integer:
        if configured is not None:
            raise DataError(f"{rows.path}: times are whole numbers, which have no time zone; leave data.time_zone out.")
        return group, wall, Clock(form=form)
    in_rows = _named_zone(rows, group)
    calendar = configured or in_rows or (None if earlier is None else zone_named(earlier))
    if rows.offsets is None:
        if calendar is None:
            return group, wall, Clock(form=form)
        return *_localised(rows, group, in_rows or calendar), Clock(calendar, in_rows, form)
    offsets = rows.offsets[group]
    instants = wall - offsets.astype("timedelta64[us]")
    if calendar is not None and (calendar.offsets_at(instants) == offsets).all():
        return group, instants, Clock(calendar, None, form)
    if in_rows is not None and len(wrong := np.flatnonzero(in_rows.offsets_at(instants) != offsets)):
        row = int(group[wrong[0]])
        right = offset_text(int(in_rows.offsets_at(instants[wrong[:1]])[0]))
        raise DataError(f"{rows.place(row)}: the time {rows.texts(row)!r}: the offset of {in_rows} is {right}.")
    zone = in_rows or _inferred_zone(rows, instants, offsets)
    if configured is None and calendar is not None and calendar.is_fixed and "UTC" not in (calendar.name, zone.name):
        calendar = zone
    return group, instants, Clock(calendar or zone, zone, form)


def _named_zone(rows: _Rows, group: NDArray[np.intp]) -> Zone | None:
    """The zone named in the rows of a series."""
    if rows.zones is None:
        return None
    names = rows.zones[group]
    other = np.flatnonzero(names != names[0])
    if len(other):
        row, first = int(group[other[0]]), int(group[0])
        raise DataError(
            f"{rows.place(row)}: the time {rows.texts(row)!r} has another zone than {rows.texts(first)!r} of "
            f"{rows.place(first)}; a series needs one zone."
        )
    try:
        return zone_named(str(names[0]))
    except DataError as error:
        raise DataError(f"{rows.place(int(group[0]))}: the time {rows.texts(int(group[0]))!r}: {error}") from None


def _inferred_zone(rows: _Rows, instants: Times, offsets: Offsets) -> Zone:
    """The zone that fits the offsets of rows."""
    if (offsets == offsets[0]).all():
        return fixed_zone(int(offsets[0]))
    order = np.argsort(instants, kind="stable")
    zone, is_certain = find_zone(instants[order], offsets[order])
    if not is_certain:
        last = offset_text(int(zone.offsets[-1]))
        listed = ", ".join(offset_text(int(offset)) for offset in dict.fromkeys(offsets.tolist()))
        if zone.name == UNNAMED:
            fit = f"no time zone; {last} is assumed after the last row"
        else:
            fit = f"{zone} and other zones that differ later"
        text = f"offsets from UTC ({listed}) fit {fit}; name the zone (data.time_zone)"
        rows.notes.append(Finding("warning", text, 1))
    return zone


def _localised(rows: _Rows, group: NDArray[np.intp], zone: Zone) -> tuple[NDArray[np.intp], Times]:
    """The rows of a series, and their local times as instants; a repeated hour is the one that continues the rows."""
    wall = rows.wall[group]
    is_day = wall == wall.astype("datetime64[D]")
    skipped = np.flatnonzero(zone.is_skipped(wall) & ~is_day)
    for row in skipped.tolist():
        with item_or_defect:
            raise DataError(
                f"{rows.place(int(group[row]))}: the time {rows.texts(int(group[row]))!r} does not exist: "
                f"{zone.change_near(wall[row])}.\n"
                "  If every day of the file has 24 hours, leave data.time_zone out."
            )
    group, wall = np.delete(group, skipped), np.delete(wall, skipped)
    instants = zone.instants(wall)
    twice = np.flatnonzero(zone.is_repeated(wall))
    if not len(twice):
        return group, instants
    later = zone.instants(wall, later=True)
    apart = np.diff(wall).astype(np.int64)
    apart = apart[apart > 0]
    usual = np.timedelta64(most_frequent(apart) if len(apart) else HOUR, "us")
    zero = np.timedelta64(0, "us")
    for row in twice.tolist():
        options = [instants[row], later[row]]
        if row:
            options = [each for each in options if each > instants[row - 1]] or options
            on_grid = [each for each in options if (each - instants[row - 1]) % usual == zero]
        else:
            after = np.flatnonzero(~zone.is_repeated(wall[: 2 * HOUR // max(int(usual.astype(int)), 1) + 2]))
            beyond = int(after[0]) if len(after) else 0
            repeats = (np.diff(wall[: beyond + 1]) <= zero).any()
            on_grid = [later[0]] if beyond and not repeats and instants[beyond] - later[0] == beyond * usual else []
        instants[row] = (on_grid or options)[0]
    return group, instants


def _in_order(
    rows: _Rows, name: str, group: NDArray[np.intp], times: Times, clock: Clock
) -> tuple[NDArray[np.intp], Times]:
    """The rows of a series whose times are after those of all rows before them; others are defects."""
    wrong = np.flatnonzero(times[1:] <= np.maximum.accumulate(times)[:-1]) + 1
    for row in wrong.tolist():
        with item_or_defect:
            raise _order_error(rows, name, group, times, clock, row)
    return np.delete(group, wrong), np.delete(times, wrong)


def _order_error(rows: _Rows, name: str, group: NDArray[np.intp], times: Times, clock: Clock, row: int) -> DataError:
    at, before = int(group[row]), int(group[row - 1])
    text, earlier = rows.texts(at), rows.texts(before)
    of = f" of series {name!r}" if name else ""
    change = _clock_hint(times, row, clock)
    if times[row] == times[row - 1]:
        hint = "" if rows.keys is not None or change else "\n  If a column names the series, set data.series."
        same = "" if text == earlier else f" ({earlier})"
        return DataError(
            f"{rows.place(at)}: the time {text}{of} is repeated from {rows.place(before)}{same}.{change}{hint}"
        )
    return DataError(
        f"{rows.place(at)}: the time {text}{of} is before {earlier} of {rows.place(before)}; "
        f"sort the rows by time.{change}"
    )


def _clock_hint(times: Times, row: int, clock: Clock) -> str:
    """A sentence about a change of clocks near a time that is not after the one before; empty if there is none."""
    if clock.is_integer or times[row - 1] - times[row] >= np.timedelta64(2 * HOUR, "us"):
        return ""
    if clock.zone is not None:
        change = clock.zone.change_near(clock.wall(times[row : row + 1])[0])
        return f"\n  Near this time, {change}." if change else ""
    wall = times[row]
    if wall == wall.astype("datetime64[D]") and (times == times.astype("datetime64[D]")).all():
        return ""
    names = zones_repeating(wall)
    if not names:
        return ""
    return f"\n  Clocks were set back at this time in {some_of(names)}: set the zone of the times (data.time_zone)."


def _positions(
    rows: _Rows, name: str, group: NDArray[np.intp], times: Times, clock: Clock, step: Step, *, fill_gaps: bool
) -> tuple[NDArray[np.intp], Times, NDArray[np.int64]]:
    """The rows of a series at whole steps from the first, their times, and the number of steps, (n,), of each."""
    counts = step.counts(times, clock)
    between = np.flatnonzero(counts != counts.round())
    of = f" of series {name!r}" if name else ""
    for row in between.tolist():
        at, first = int(group[row]), int(group[0])
        with item_or_defect:
            raise DataError(
                f"{rows.place(at)}: the time {rows.texts(at)}{of} is not a whole number of steps after "
                f"{rows.texts(first)} of {rows.place(first)}; the step is {step}.{_step_hint(times, row, clock, step)}"
            )
    group, times = np.delete(group, between), np.delete(times, between)
    at_rows: NDArray[np.int64] = np.delete(counts, between).astype(np.int64)
    gaps = np.flatnonzero(np.diff(at_rows) > 1)
    if len(gaps) and not fill_gaps:
        row, missing = int(gaps[0]) + 1, int((np.diff(at_rows) - 1).sum())
        at, before = int(group[row]), int(group[row - 1])
        with item_or_defect:  # which fills the gaps
            raise DataError(
                f"{rows.place(at)}: the time {rows.texts(at)}{of} is {int(at_rows[row] - at_rows[row - 1])} steps of "
                f"{step} after {rows.texts(before)}; {counted(missing, 'row|rows is|are')} left out in "
                f"{counted(len(gaps), 'gap|gaps')}.\n"
                "  With fill_gaps they become rows of missing values."
            )
    return group, times, at_rows


def _step_hint(times: Times, row: int, clock: Clock, step: Step) -> str:
    """A likely reason for a time between steps, and the setting that helps."""
    wall = clock.wall(times[row : row + 1])[0]
    if step.business and not step.months and not np.is_busday(wall.astype("datetime64[D]")):
        return "\n  It is on a weekend: set data.step to days."
    if clock.zone is not None and (change := clock.zone.change_near(wall)):
        return f"\n  Near this time, {change}."
    apart = int((times[row] - times[row - 1]).astype(np.int64)) if row else 0
    size = 0 if step.months or step.business else step.microseconds
    if size and min(apart % size, -apart % size) in (HOUR // 2, HOUR) and size > HOUR:
        return "\n  The difference is that of a change of clocks: set the zone of the times (data.time_zone)."
    return "\n  For rows at irregular times, set data.step to rows, which makes each row a step."


def _note(text: str) -> Finding:
    return Finding("info", text, 1)
