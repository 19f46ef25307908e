"""The step of a time series, and what the calendar says of a time: features that are known in advance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError

Times = NDArray[np.datetime64]
"""(N,) datetime64[us], in UTC if the file gives an offset."""

SECOND = 1_000_000
MINUTE, HOUR, DAY, WEEK = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND, 604_800 * SECOND
_UNITS = (("week", WEEK), ("day", DAY), ("hour", HOUR), ("minute", MINUTE), ("second", SECOND), ("microsecond", 1))
_SEASONS = ((SECOND, MINUTE), (MINUTE, HOUR), (DAY, DAY), (WEEK, WEEK))
"""Steps shorter than the first have the second as their season."""
TIME_FEATURES = ("hour_of_day", "day_of_week", "day_of_year", "month")


@dataclass(frozen=True, slots=True)
class Step:
    """The time between two rows: months of the calendar, or a fixed duration.

    Args:
        months: months; 0 for a fixed duration.
        microseconds: the fixed duration; 0 for months.
        month_end: whether rows stand at the last day of their month.

    >>> step = Step(microseconds=HOUR)
    >>> str(step), step.period, step.features
    ('1 hour', 24, ('hour_of_day', 'day_of_week', 'day_of_year'))
    >>> str(Step(months=3)), Step(months=3).period
    ('3 months', 4)
    """

    months: int = 0
    microseconds: int = 0
    month_end: bool = False

    def __str__(self) -> str:
        if self.months:
            count, unit = (self.months // 12, "year") if self.months % 12 == 0 else (self.months, "month")
        else:
            unit, size = next(item for item in _UNITS if self.microseconds % item[1] == 0)
            count = self.microseconds // size
        return f"{count} {unit}{'s' * (count != 1)}"

    @property
    def period(self) -> int:
        """The steps of a season: a minute for steps below a second, an hour for seconds, a day for minutes and hours, a
        week for days, 52 for weeks, a year for months; 1, no season, if that is no whole number of steps."""
        if self.months:
            return 12 // self.months if 12 % self.months == 0 else 1
        if self.microseconds >= WEEK:
            return 52 if self.microseconds == WEEK else 1
        season = next(season for below, season in _SEASONS if self.microseconds < below)
        return season // self.microseconds if season % self.microseconds == 0 else 1

    @property
    def features(self) -> tuple[str, ...]:
        """The time features that differ between rows."""
        if self.months:
            return ("month",) if self.months < 12 else ()
        longest = {"hour_of_day": DAY, "day_of_week": WEEK, "day_of_year": 365 * DAY}
        return tuple(name for name, size in longest.items() if self.microseconds < size)

    def after(self, time: np.datetime64, count: int) -> Times:
        """(count,) times that follow.

        >>> [str(day)[:10] for day in Step(months=1, month_end=True).after(np.datetime64("2024-01-31"), 2)]
        ['2024-02-29', '2024-03-31']
        """
        return self._from(time.astype("datetime64[us]"), np.arange(1, count + 1))

    def _from(self, time: np.datetime64, counts: NDArray[np.int64]) -> Times:
        if not self.months:
            return time + (counts * self.microseconds).astype("timedelta64[us]")
        month = time.astype("datetime64[M]")
        clock = time - time.astype("datetime64[D]")
        months = month + (counts * self.months).astype("timedelta64[M]")
        if self.month_end:
            days = (months + np.timedelta64(1, "M")).astype("datetime64[D]") - np.timedelta64(1, "D")
        else:
            days = months.astype("datetime64[D]") + (time.astype("datetime64[D]") - month.astype("datetime64[D]"))
        return days.astype("datetime64[us]") + clock

    def counts(self, times: Times) -> NDArray[np.float64]:
        """(N,) steps from the first time to each; not whole for a time that lies between steps."""
        if not self.months:
            return (times - times[0]) / np.timedelta64(self.microseconds, "us")
        months = times.astype("datetime64[M]").astype(np.int64)
        counts = (months - months[0]) / self.months
        whole = counts == counts.round()
        expected = self._from(times[0], counts.round().astype(np.int64))
        return np.where(whole & (expected == times), counts, np.floor(counts) + 0.5)


def find_step(times: Times) -> Step:
    """The step of sorted times: months if all stand at the same day of their month, else the most frequent difference.

    Raises:
        DataError: for fewer than two times.

    >>> str(find_step(np.array(["2024-01-01", "2024-02-01", "2024-03-01"], "datetime64[us]")))
    '1 month'
    """
    if len(times) < 2:
        raise DataError(f"One step needs two times; got {len(times)}. Give the step.")
    days, months = times.astype("datetime64[D]"), times.astype("datetime64[M]")
    in_month = (days - months.astype("datetime64[D]")).astype(np.int64)
    last = days + np.timedelta64(1, "D") == (months + np.timedelta64(1, "M")).astype("datetime64[D]")
    apart = np.diff(months).astype(np.int64)
    at_once = len(np.unique(times - days)) == 1
    if at_once and apart.min() > 0 and (last.all() or len(np.unique(in_month)) == 1):
        is_end = bool(last.all()) and (len(np.unique(in_month)) > 1 or in_month[0] == 30)
        return Step(months=_most_frequent(apart), month_end=is_end)
    return Step(microseconds=_most_frequent(np.diff(times).astype("timedelta64[us]").astype(np.int64)))


def time_features(times: Times, names: Sequence[str] = TIME_FEATURES) -> NDArray[np.float64]:
    """The position of each time in its day, week and year, as sine and cosine.

    A position p of a cycle of n is (sin 2πp/n, cos 2πp/n), so that the cycle's end is next to its beginning. They
    follow from the time alone and are known for all future steps.

    Args:
        times: (..., ) times.
        names: some of `hour_of_day` (with its fraction), `day_of_week` (from Monday), `day_of_year`, `month`.

    Returns:
        (..., 2·names): sine and cosine of the first name, of the second, and so on.

    >>> time_features(np.array(["2024-01-01T06:00"], "datetime64[us]"), ["hour_of_day", "day_of_week"]).round(3) + 0.0
    array([[1., 0., 0., 1.]])
    """
    unknown = [name for name in names if name not in TIME_FEATURES]
    if unknown:
        raise DataError(f"Time features are {', '.join(TIME_FEATURES)}; got {unknown[0]!r}.")
    days, months, years = (times.astype(f"datetime64[{unit}]") for unit in "DMY")
    positions: dict[str, NDArray[Any]] = {
        "hour_of_day": (times - days) / np.timedelta64(1, "D"),
        "day_of_week": (days.astype(np.int64) + 3) % 7 / 7,  # 1970 began on a Thursday
        "day_of_year": (days - years.astype("datetime64[D]")).astype(np.int64) / 365.25,
        "month": (months - years.astype("datetime64[M]")).astype(np.int64) / 12,
    }
    angles = [2 * np.pi * positions[name] for name in names]
    waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    return np.stack(waves, axis=-1) if waves else np.zeros((*times.shape, 0))


def _most_frequent(values: NDArray[np.int64]) -> int:
    distinct, counts = np.unique(values, return_counts=True)
    return int(distinct[counts.argmax()])
