"""Series of Python in a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from regard.data.csv_fields import csv_line
from regard.data.objects import DataRows, WrittenData, cell, plain_value, table_of, write_lines
from regard.errors import ConfigError, DataError
from regard.tasks.forecasting.config import SeriesDataConfig

INDEX = "time"
"""The name of the column of an index without a name."""


def write_series(config: SeriesDataConfig, data: Any, folder: Path, name: str) -> WrittenData:
    """Writes series as CSV.

    Args:
        data: a table with an index of times, or with the times as its first column or that of `data.time`; a series of
            pandas; a dict of columns; a list of dicts; or an array, or lists, of rows, which have no times.
    """
    table, times = _table(data, name)
    form, settings = {"data.header": table.names is not None, "data.decimal": "."}, dict[str, Any]()
    if config.time_format is not None and times is not None:
        raise ConfigError(f"{name} has an index of times, which needs no format", ("data", "time_format"))
    if any(name.replace(".", "").isdecimal() for name in table.names or ()):  # such names are like a row
        settings["data.header"] = True
    if numbered := times is None and _is_numbered(table, config):
        settings["data.numbered_rows"] = True
    if times is not None and (zone := _zone(data)) is not None and config.time_zone is None:
        settings["data.time_zone"] = zone
    if times is not None:
        if numbered or config.time not in (None, times[0]):
            raise ConfigError(f"{name} has an index of times, {times[0]!r}; leave the key out", ("data", "time"))
        table = DataRows(
            name, (times[0], *(table.names or ())), [[t, *row] for t, row in zip(times[1], table.rows, strict=True)]
        )

    def lines() -> Iterator[tuple[str, str]]:
        if table.names is not None:
            yield name, csv_line(table.names)
        for place, values in table.selected(range(len(table.names or table.rows[0]))):
            yield place, csv_line(map(cell, values))

    path = folder / f"{name}.csv"
    write_lines(path, lines())
    first = 1 if table.names is None else 2
    return WrittenData(path, name, range(first, first + len(table.rows)), form, settings)


def _table(data: Any, name: str) -> tuple[DataRows, tuple[str, list[Any]] | None]:
    """The columns, and name and values of an index of times."""
    index: Any = getattr(data, "index", None) if hasattr(data, "iloc") else None
    if index is not None and not hasattr(data, "columns"):  # a series of pandas
        data = data.to_frame("value" if data.name is None else str(data.name))
    table = table_of(data, name)
    if index is None:
        return table, None
    if getattr(index, "nlevels", 1) > 1:
        raise DataError(f"{name}: the index has several levels; make them columns (reset_index).")
    if hasattr(index, "to_timestamp"):  # periods
        index = index.to_timestamp()
    values = [plain_value(value) for value in index]
    if index.name is None and not all(isinstance(value, date | str) for value in values):
        return table, None
    return table, (INDEX if index.name is None else str(index.name), values)


def _is_numbered(table: DataRows, config: SeriesDataConfig) -> bool:
    """Whether rows without an index of times have no times, either."""
    if config.numbered_rows or table.names is None:
        return True
    if config.time is None and isinstance(table.rows[0][0], int | float):
        raise DataError(
            f"{table.name} has no column of times: its first, {table.names[0]!r}, has numbers. Give it an index of "
            "times, name the column (data.time), or number the rows (data.numbered_rows: true)."
        )
    return False


def _zone(data: Any) -> str | None:
    """The name of the zone of an index of times."""
    zone = getattr(data.index, "tz", None)
    name = getattr(zone, "key", getattr(zone, "zone", None))
    return name if isinstance(name, str) else None
