"""Checks of the values of series: outliers, repeated, constant and missing values, values below a minimum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from regard.data.finding import NUM_EXAMPLES, Finding
from regard.data.series.series import Series, SeriesTable, Values
from regard.errors import counted

MUCH_MISSING = 0.5
"""The share of missing values of a target that is reported."""
FAR, ISOLATION, MOST_FAR = 10.0, 3.0, 0.4
"""Outliers are beyond the quartiles by FAR times their distance, and beyond all other values by ISOLATION times the
range of these; they are at most the share MOST_FAR of the values."""
CODES = (999.0, 9_999.0, 99_999.0, 999_999.0, 99.0, 32_767.0, 32_768.0, 65_535.0)
"""Common codes for missing values, with either sign; they are outliers at smaller distances."""
CODE_FAR, CODE_ISOLATION = 3.0, 0.5
STILL, STILL_SEASONS, MOST_REPEATS = 24, 3, 0.2
"""A run of equal values is reported from this length and number of seasons, unless more than the share MOST_REPEATS of
the other values repeats the one before."""


def check_values(name: str, table: SeriesTable) -> Iterator[Finding]:
    """Findings about the values of a table; `name` is the file in messages."""
    yield from _gaps(name, table)
    yield from _missing(name, table)
    for kind, names in (("targets", table.target_names), ("known", table.known_names)):
        for number, column in enumerate(names):
            columns = [getattr(series, kind)[:, number] for series in table.series]
            yield from _constant(name, table, column, columns)
            yield from _far(name, table, column, columns)
            yield from _still(name, table, column, columns)


def counted_targets(table: SeriesTable) -> dict[str, float]:
    """The minimum 0 for each target of counts: whole numbers of at least 0, including 0 or 1.

    >>> from regard.data.series.calendar import Step
    >>> counted_targets(SeriesTable.of({"a": [[0, 0.5], [3, 1.5]]}, "2024-01-01", Step(months=1), names=["n", "x"]))
    {'n': 0.0}
    """
    counts = {}
    for number, target in enumerate(table.target_names):
        values = np.concatenate([series.targets[:, number] for series in table.series])
        values = values[~np.isnan(values)]
        if len(values) and (values == values.round()).all() and 0 <= values.min() <= 1 < values.max():
            counts[target] = 0.0
    return counts


def check_minimum(name: str, table: SeriesTable, minimum: Mapping[str, float]) -> Iterator[Finding]:
    """Values below the minimum of their target."""
    for target, least in minimum.items():
        number = table.target_names.index(target)
        below = [np.flatnonzero(series.targets[:, number] < least) for series in table.series]
        if total := sum(map(len, below)):
            text = (
                f"{name}: {counted(total, 'value|values')} of {target!r} below data.minimum={least:g}, "
                "which no forecast will be"
            )
            yield Finding("warning", text, total, _places(table, below))


def far_values(values: Values) -> NDArray[np.bool_]:
    """A mask of the outliers among values (N,), which dominate mean and deviation; NaN is not an outlier.

    >>> far_values(np.array([3.0, 5.0, 4.0, 6.0, 5.0, -9999.0])).tolist()
    [False, False, False, False, False, True]
    """
    observed = values[~np.isnan(values)]
    outliers = np.zeros(len(values), np.bool_)
    if len(observed) < 4:
        return outliers
    low, high = np.quantile(observed, [0.25, 0.75])
    if low == high:  # more than half of the values are equal, such as zeros for days without sales
        others = observed[observed != low]
        if len(others) < 4:
            return outliers
        low, high = min(low, np.quantile(others, 0.25)), max(high, np.quantile(others, 0.75))
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = np.maximum(low - values, values - high) / (high - low)
        for far, isolation, among in (
            (CODE_FAR, CODE_ISOLATION, np.isin(abs(values), CODES)),
            (FAR, ISOLATION, np.isfinite(values)),
        ):
            candidates = among & (beyond > far)
            rest = values[~candidates & ~np.isnan(values)]
            if not candidates.any() or candidates.sum() > MOST_FAR * len(observed) or not len(rest):
                continue
            size = max(rest.max() - rest.min(), high - low)
            outliers |= candidates & (np.maximum(rest.min() - values, values - rest.max()) > isolation * size)
    return outliers


def _far(name: str, table: SeriesTable, column: str, columns: list[Values]) -> Iterator[Finding]:
    """Outliers of each series."""
    marks = [far_values(values) for values in columns]
    total = sum(int(mark.sum()) for mark in marks)
    if not total:
        return
    far = np.concatenate([values[mark] for values, mark in zip(columns, marks, strict=True)])
    near = np.concatenate([values[~mark & ~np.isnan(values)] for values, mark in zip(columns, marks, strict=True)])
    distinct, counts = np.unique(far, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:NUM_EXAMPLES]
    which = ", ".join(f"{distinct[i]:g} ({counts[i]:,} times)" if counts[i] > 1 else f"{distinct[i]:g}" for i in order)
    which += ", …" * (len(distinct) > NUM_EXAMPLES)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.concatenate([near, far]).std()
    codes = ", ".join(f"{distinct[i]:g}" for i in order)
    text = (
        f"{name}: {column!r} has {counted(total, 'value|values')} far from all others "
        f"({near.min():g} to {near.max():g}): {which}; with them the deviation is {scale:.3g}, without "
        f"{near.std():.3g}. If they mean missing values, set data.missing_values=[{codes}]"
    )
    yield Finding("warning", text, total, _places(table, [np.flatnonzero(mark) for mark in marks]))


def _still(name: str, table: SeriesTable, column: str, columns: list[Values]) -> Iterator[Finding]:
    """Long runs of equal values in series that change elsewhere."""
    least = max(STILL, STILL_SEASONS * table.step.period if table.step.period <= STILL else STILL)
    begins, total, value, longest = [], 0, 0.0, 0
    for values in columns:
        starts, lengths = _runs(values)
        long = lengths >= least
        short = lengths[~long]
        is_rare = long.any() and long.sum() * least <= len(values) and len(short) >= 2
        if not is_rare or (short.sum() - len(short)) / short.sum() > MOST_REPEATS:
            begins.append(starts[:0])
            continue
        begins.append(starts[long])
        total += int(lengths[long].sum())
        if lengths[long].max() > longest:
            longest = int(lengths[long].max())
            value = float(values[starts[long][lengths[long].argmax()]])
    if total:
        text = f"{name}: {column!r} does not change in {total:,} rows, for example {value:g} in {longest:,} rows"
        yield Finding("warning", text, total, _places(table, begins))


def _runs(values: Values) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first rows and the lengths of runs of equal observed values."""
    changes = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])) if len(values) else np.zeros(0, int)
    lengths = np.diff(np.append(changes, len(values)))
    observed = ~np.isnan(values[changes])
    return changes[observed], lengths[observed]


def _gaps(name: str, table: SeriesTable) -> Iterator[Finding]:
    """Rows without any value, or left out of the file."""
    empty = [np.flatnonzero(~series.observed[: series.end].any(axis=1)) for series in table.series]
    if total := sum(map(len, empty)):
        text = (
            f"{name}: {counted(total, 'row|rows has|have no value or is|are left out of the file; counted as missing')}"
        )
        yield Finding("warning", text, total, _places(table, empty))


def _missing(name: str, table: SeriesTable) -> Iterator[Finding]:
    """Targets with missing values in rows that have other values."""
    for number, target in enumerate(table.target_names):
        rows = [series.targets[: series.end][series.observed[: series.end].any(axis=1)] for series in table.series]
        total, missing = sum(map(len, rows)), sum(int(np.isnan(part[:, number]).sum()) for part in rows)
        if missing > MUCH_MISSING * total:
            text = f"{name}: {missing / total:.0%} of the values of {target!r} are missing"
            yield Finding("warning", text, missing)
        elif missing:
            yield Finding("info", f"{name}: {target!r} has {counted(missing, 'missing value|values')}", missing)


def _constant(name: str, table: SeriesTable, column: str, columns: list[Values]) -> Iterator[Finding]:
    """Columns whose values never change."""
    constant = []
    for series, values in zip(table.series, columns, strict=True):
        observed = values[~np.isnan(values)]
        if len(observed) > 1 and (observed == observed[0]).all():
            constant.append(series.name)
    if constant:
        several = len(table.series) > 1
        of = f" of {len(constant):,} series" * several
        examples = tuple(map(repr, constant[:NUM_EXAMPLES])) if several else ()
        yield Finding("warning", f"{name}: the column {column!r}{of} is constant", len(constant), examples)


def _places(table: SeriesTable, rows: list[NDArray[np.intp]]) -> tuple[str, ...]:
    """The places of the first of some rows of each series."""
    pairs: list[tuple[Series, int]] = []
    for series, at in zip(table.series, rows, strict=True):
        pairs += [(series, int(row)) for row in at[:NUM_EXAMPLES]]
    return tuple(table.place(series, row) for series, row in pairs[:NUM_EXAMPLES])
