"""The step of a time series, and features of its times that are known in advance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.config.spelling import did_you_mean, nearest
from regard.data.series.time_texts import NAIVE, Clock
from regard.data.series.zones import DAY, HOUR, MINUTE, SECOND, Times
from regard.errors import DataError

WEEK = 7 * DAY
_UNITS = (("week", WEEK), ("day", DAY), ("hour", HOUR), ("minute", MINUTE), ("second", SECOND), ("microsecond", 1))
_SEASONS = ((SECOND, MINUTE), (MINUTE, HOUR), (DAY, DAY), (WEEK, WEEK))
"""(bound, season): the season of steps shorter than the bound."""
TIME_FEATURES = ("hour_of_day", "day_of_week", "day_of_year", "month")
STEP_NAMES = ("rows", "business_days", "seconds", "minutes", "hours", "days", "weeks", "months", "quarters", "years")
WEEKENDS = 2
"""The least number of weekends without rows for days to be business days."""


@dataclass(frozen=True, slots=True)
class Step:
    """The time between two rows: months or days of the calendar, a duration, a number, or one row.

    Days, weeks and months are local to the zone of a series, so that a day may have 23 or 25 hours; hours and shorter
    steps are durations.

    Args:
        months: months of the calendar.
        microseconds: the duration, with 24 hours a day.
        month_end: whether rows are on the last day of their month.
        month_day: 29 or 30, if rows are on this day of their month, or on its last if it is shorter.
        business: with days, whether Saturdays and Sundays are left out; with months, whether rows are on the last
            (`month_end`) or first business day of their month.
        counting: "local" for hours of local time, "elapsed" for days of 24 hours; empty for the default.
        number: the difference between times that are whole numbers.
        rows: whether each row is a step, regardless of its time; times after the last row are unknown (NaT).

    >>> step = Step(microseconds=HOUR)
    >>> str(step), step.period, step.features
    ('1 hour', 24, ('hour_of_day', 'day_of_week', 'day_of_year'))
    >>> str(Step(months=3)), Step(months=3).period
    ('3 months', 4)
    """

    months: int = 0
    microseconds: int = 0
    month_end: bool = False
    month_day: int = 0
    business: bool = False
    counting: Literal["", "local", "elapsed"] = ""
    number: int = 0
    rows: bool = False

    def __str__(self) -> str:
        kind = ""
        if self.rows:
            count, unit = 1, "row, whatever its time"
        elif self.number:
            count, unit = self.number, "unit"
        elif self.months:
            count, unit = (self.months // 12, "year") if self.months % 12 == 0 else (self.months, "month")
        else:
            units = _UNITS[2:] if self.counting == "elapsed" else _UNITS
            unit, size = next(item for item in units if self.microseconds % item[1] == 0)
            count = self.microseconds // size
            kind = "business " * self.business
        return f"{count} {kind}{unit}{'s' * (count != 1)}"

    @property
    def is_local(self) -> bool:
        """Whether steps are in local time rather than durations."""
        if self.rows or self.number:
            return False
        return bool(self.months) or (self.counting or ("elapsed" if self.microseconds % DAY else "local")) == "local"

    @property
    def period(self) -> int:
        """The steps of a season: a minute for steps below a second, an hour for seconds, a day for minutes and hours, a
        week for days, 52 weeks for weeks, a year for months; 1 (no season) if the season is not a whole number of
        steps, and for numbers and rows."""
        if self.rows or self.number:
            return 1
        if self.months:
            return 12 // self.months if 12 % self.months == 0 else 1
        if self.business:
            return 5 if self.microseconds == DAY else 1
        if self.microseconds >= WEEK:
            return 52 if self.microseconds == WEEK else 1
        season = next(season for below, season in _SEASONS if self.microseconds < below)
        return season // self.microseconds if season % self.microseconds == 0 else 1

    @property
    def features(self) -> tuple[str, ...]:
        """The time features that differ between rows."""
        if self.rows or self.number:
            return ()
        if self.months:
            return ("month",) if self.months < 12 else ()
        longest = {"hour_of_day": DAY, "day_of_week": WEEK, "day_of_year": 365 * DAY}
        return tuple(name for name, size in longest.items() if self.microseconds < size)

    def after(self, times: Times | np.datetime64, count: int, clock: Clock = NAIVE) -> Times:
        """(count,) times after a time, or after the last of some times at this step.

        >>> [str(day)[:10] for day in Step(months=1, month_end=True).after(np.datetime64("2024-01-31"), 2)]
        ['2024-02-29', '2024-03-31']
        """
        times = np.atleast_1d(times).astype("datetime64[us]")
        if self.rows:
            return np.full(count, np.datetime64("NaT"), "datetime64[us]")
        return self._at(times, len(times) + np.arange(count), clock)

    def grid(self, times: Times, count: int, clock: Clock = NAIVE) -> Times:
        """(count,) the first of some times at this step, and all steps after it."""
        return self._at(times, np.arange(count), clock)

    def counts(self, times: Times, clock: Clock = NAIVE) -> NDArray[np.float64]:
        """(N,) steps from the first time to each; not whole for a time between steps."""
        if self.rows:
            return np.arange(len(times), dtype=np.float64)
        if not self.is_local:
            return (times - times[0]) / np.timedelta64(self.number or self.microseconds, "us")
        wall = clock.wall(times)
        dates, months = wall.astype("datetime64[D]"), wall.astype("datetime64[M]").astype(np.int64)
        if self.months:
            counts = (months - months[0]) / self.months
        elif self.business:
            counts = np.busday_count(dates[0], dates) / (self.microseconds // DAY)
        else:
            near = np.round((wall - wall[0]) / np.timedelta64(self.microseconds, "us"))
            counts = near if len(times) else np.zeros(0)
        whole = counts == counts.round()
        expected = self._at(times, counts.round().astype(np.int64), clock)
        return np.where(whole & (expected == times), counts, np.floor(counts) + 0.5)

    def _at(self, times: Times, counts: NDArray[np.int64], clock: Clock) -> Times:
        """The times some steps after the first, at the most frequent time of day of the first three, as a change of
        clocks may skip that of the first."""
        if not self.is_local:
            return times[0] + (counts * (self.number or self.microseconds)).astype("timedelta64[us]")
        wall = clock.wall(times[:3])
        dates = wall.astype("datetime64[D]")
        date = dates[0]
        time_of_day = _of_day(wall)
        if not self.months and not self.business:
            later = (counts * self.microseconds).astype("timedelta64[us]")
            start: Any = dates[0].astype("datetime64[us]") + time_of_day if self.microseconds % DAY == 0 else wall[0]
            return clock.instants(start + later)
        if not self.months:
            days: Any = np.busday_offset(date, counts * (self.microseconds // DAY), roll="forward")
            return clock.instants(days.astype("datetime64[us]") + time_of_day)
        month = date.astype("datetime64[M]")
        months = month + (counts * self.months).astype("timedelta64[M]")
        begin, end = months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]") - 1
        if self.business and self.month_end:
            days = np.busday_offset(end, 0, roll="backward")
        elif self.business:
            days = np.busday_offset(begin, 0, roll="forward")
        elif self.month_end:
            days = end
        else:
            day = self.month_day - 1 if self.month_day else (date - month.astype("datetime64[D]")).astype(np.int64)
            days = np.minimum(begin + day, end)
        return clock.instants(days.astype("datetime64[us]") + time_of_day)


def find_step(times: Times, clock: Clock = NAIVE) -> Step:
    """The step of sorted times, from their most frequent difference.

    For times at the same local time of day it is in months if all are on the same day of their month, its last, or its
    first or last business day; in business days if none is on a Saturday or Sunday; else in days. For other times it is
    a duration.

    Raises:
        DataError: for fewer than two times.

    >>> str(find_step(np.array(["2024-01-01", "2024-02-01", "2024-03-01"], "datetime64[us]")))
    '1 month'
    """
    if len(times) < 2:
        raise DataError(f"A step needs at least two times; got {len(times)}. Set the step.")
    apart = np.diff(times).astype("timedelta64[us]").astype(np.int64)
    if clock.is_integer:
        return Step(number=most_frequent(apart))
    wall = clock.wall(times)
    dates = wall.astype("datetime64[D]")
    usual = np.add(dates.astype("datetime64[us]"), _of_day(wall))
    at_same_time = (clock.instants(usual) == times).all()
    if at_same_time and np.diff(dates).min() > np.timedelta64(0):
        return _months(dates) or _days(dates)
    duration = most_frequent(apart)
    if duration % DAY == 0 and (apart % DAY == 0).all():
        return Step(microseconds=duration, counting="elapsed")
    local = np.diff(wall).astype("timedelta64[us]").astype(np.int64)
    if (apart % duration).any() and local.min() > 0 and not (local % most_frequent(local)).any():
        return Step(microseconds=most_frequent(local), counting="local")
    return Step(microseconds=duration)


def parse_step(text: str, times: Times, clock: Clock = NAIVE) -> Step:
    """The step named by a text.

    Args:
        text: one of `STEP_NAMES`, also in the singular and after a number, such as "15 minutes".
        times: the sorted times of rows, which determine the day of the month.

    Raises:
        DataError: for another text.

    >>> str(parse_step("15 minutes", np.array(["2024-01-01"], "datetime64[us]")))
    '15 minutes'
    """
    match = re.fullmatch(r"\s*(?:(\d+)\s*)?([a-z_ -]+?)\s*", text.lower())
    count, unit = (int(match[1] or 1), match[2].replace(" ", "_").replace("-", "_")) if match else (0, "")
    unit += "s" * (not unit.endswith("s"))
    if unit not in STEP_NAMES or count < 1 or (unit == "rows" and count != 1):
        similar = nearest(unit, STEP_NAMES)
        hint = f" {did_you_mean(similar)}" if similar and unit not in STEP_NAMES else ""
        names = ", ".join(STEP_NAMES)
        raise DataError(f"A step is one of {names}, or a number of them, such as 15 minutes; got {text!r}.{hint}")
    if unit == "rows":
        has_gaps = (np.diff(times).astype(np.int64) != 1).any()
        return Step(number=1) if clock.is_integer and not has_gaps else Step(rows=True)
    if clock.is_integer:
        raise DataError(f"The times are whole numbers, so a step cannot be in {unit.replace('_', ' ')}; use rows.")
    if unit in ("months", "quarters", "years"):
        dates = clock.wall(times).astype("datetime64[D]")
        months = count * {"months": 1, "quarters": 3, "years": 12}[unit]
        return _months(dates, months) or Step(months=months)
    sizes = {"seconds": SECOND, "minutes": MINUTE, "hours": HOUR, "days": DAY, "business_days": DAY, "weeks": WEEK}
    return Step(microseconds=count * sizes[unit], business=unit == "business_days")


def time_features(times: Times, names: Sequence[str] = TIME_FEATURES) -> NDArray[np.float64]:
    """The position of each time in its day, week and year, as sine and cosine.

    A position p of a cycle of n is (sin 2πp/n, cos 2πp/n), so that the cycle's end is next to its beginning. Features
    depend on the time only and are known for all future steps.

    Args:
        times: (..., ) local times.
        names: some of `hour_of_day` (with its fraction), `day_of_week` (from Monday), `day_of_year`, `month`.

    Returns:
        (..., 2·names): sine and cosine for the first name, then for the second, and so on.

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


def _months(dates: NDArray[np.datetime64], count: int = 0) -> Step | None:
    """The step of dates on the same day of their months, from their differences unless `count` is set; else None."""
    months = dates.astype("datetime64[M]")
    apart = np.diff(months).astype(np.int64)
    if not count and (not len(apart) or apart.min() <= 0):
        return None
    begin, end = months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]") - 1
    day = (dates - begin).astype(np.int64) + 1
    is_end = (dates == end).all() and (count == 0 or day[0] > 28 or len(day) > 1)
    count = count or most_frequent(apart)
    if is_end:
        return Step(months=count, month_end=True)
    if len(np.unique(day)) == 1 and day[0] < 29:
        return Step(months=count)
    if (dates == np.minimum(begin + (int(day.max()) - 1), end)).all():
        return Step(months=count, month_day=int(day.max()))
    if (dates == np.busday_offset(end, 0, roll="backward")).all():
        return Step(months=count, month_end=True, business=True)
    if (dates == np.busday_offset(begin, 0, roll="forward")).all():
        return Step(months=count, business=True)
    return None


def _days(dates: NDArray[np.datetime64]) -> Step:
    """The step of dates: business days if all weekends are left out."""
    weekends = (np.busday_count(dates[0], dates[-1], weekmask="0000011")) / 2
    apart = np.diff(dates).astype(np.int64)
    if weekends >= WEEKENDS and np.is_busday(dates).all() and most_frequent(apart) == 1:
        return Step(microseconds=DAY, business=True)
    return Step(microseconds=most_frequent(apart) * DAY)


def _of_day(wall: Times) -> np.timedelta64:
    """The most frequent time of day."""
    return np.timedelta64(most_frequent((wall - wall.astype("datetime64[D]")).astype(np.int64)), "us")


def most_frequent(values: NDArray[np.int64]) -> int:
    """The most frequent value; the smallest of several."""
    distinct, counts = np.unique(values, return_counts=True)
    return int(distinct[counts.argmax()])
