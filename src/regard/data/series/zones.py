"""Time zones: by name, by offset from UTC, or inferred from the offsets of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np
from numpy.typing import NDArray

from regard.config.spelling import suggestion
from regard.errors import DataError, counted

Times = NDArray[np.datetime64]
Offsets = NDArray[np.int64]
"""Microseconds that local time is ahead of UTC."""

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
FIRST_YEAR, LAST_YEAR = 1900, 2100
"""The years in which changes of clocks are known; before and after, the offset is constant."""
KNOWN_ZONES = (
    "UTC", "Europe/London", "Europe/Berlin", "Europe/Athens", "America/New_York", "America/Chicago", "America/Denver",
    "America/Los_Angeles", "Australia/Sydney", "Australia/Adelaide", "Australia/Lord_Howe",
    "Pacific/Auckland",
)  # fmt: skip
"""Zones that are preferred among those with the same offsets."""
UNNAMED = "the file"
"""The name of a zone that is not in the database."""
NUM_SAMPLES, AHEAD_DAYS = 200, 730
"""Rows at which zones are compared besides the changes of offset, and days after the last row in which zones with the
same past are compared."""


@dataclass(frozen=True, eq=False)
class Zone:
    """A time zone.

    Args:
        name: of the IANA database, such as Europe/Berlin; "UTC"; or an offset, such as +05:30.
        changes: (M,) datetime64[us], the instants in UTC at which the offset changes.
        offsets: (M + 1,) microseconds, before the first change, after it, and so on.

    >>> berlin = zone_named("Europe/Berlin")
    >>> berlin.wall(np.array(["2025-03-30T00:59", "2025-03-30T01:00"], "datetime64[us]")).astype("datetime64[m]")
    array(['2025-03-30T01:59', '2025-03-30T03:00'], dtype='datetime64[m]')
    """

    name: str
    changes: Times
    offsets: Offsets

    def __str__(self) -> str:
        return self.name

    @property
    def is_fixed(self) -> bool:
        """Whether the offset never changes."""
        return not len(self.changes)

    @property
    def tzinfo(self) -> tzinfo:
        """The zone as Python's type; the last offset for a zone that is not in the database."""
        if self.is_fixed or self.name not in available_timezones():
            return timezone(timedelta(microseconds=int(self.offsets[-1])))
        return ZoneInfo(self.name)

    def offsets_at(self, instants: Times) -> Offsets:
        """The offset at each instant."""
        return self.offsets[np.searchsorted(self.changes, instants, side="right")]

    def wall(self, instants: Times) -> Times:
        """Local times."""
        return instants + self.offsets_at(instants).astype("timedelta64[us]")

    def instants(self, wall: Times, *, later: bool = False) -> Times:
        """The instants of local times; of a repeated local time the first, or the second if `later`.

        A skipped local time is the instant of the change of clocks, as pandas' `nonexistent="shift_forward"`.
        """
        before, after = self._readings(wall)
        is_before, is_after = (self.wall(reading) == wall for reading in (before, after))
        at = np.minimum(np.searchsorted(self.changes, np.minimum(before, after), side="right"), len(self.changes) - 1)
        change = self.changes[at] if len(self.changes) else wall
        instants = np.where(is_before, before, np.where(is_after, after, change))
        return np.where(is_before & is_after, after if later else before, instants)

    def is_repeated(self, wall: Times) -> NDArray[np.bool_]:
        """Whether local times occur twice, because clocks are set back."""
        before, after = self._readings(wall)
        return (before != after) & (self.wall(before) == wall) & (self.wall(after) == wall)

    def is_skipped(self, wall: Times) -> NDArray[np.bool_]:
        """Whether local times do not occur, because clocks are set forward."""
        before, after = self._readings(wall)
        return (self.wall(before) != wall) & (self.wall(after) != wall)

    def change_near(self, wall: np.datetime64) -> str:
        """A sentence about the change of clocks within a day of a local time; empty if there is none."""
        instant = self.instants(np.array([wall], "datetime64[us]"))[0]
        near = np.flatnonzero(abs(self.changes - instant) <= np.timedelta64(DAY, "us"))
        if not len(near):
            return ""
        at = int(near[0])
        first, second = (self.changes[at] + np.timedelta64(int(self.offsets[at + i]), "us") for i in (0, 1))
        day, hour, then = str(first)[:10], str(first)[11:16], str(second)[11:16]
        return f"in {self} clocks went from {hour} to {then} on {day}"

    def _readings(self, wall: Times) -> tuple[Times, Times]:
        """The instants of local times by the offset of a day before, and by that of a day after."""
        day = np.timedelta64(DAY, "us")
        before, after = (wall - self.offsets_at(near).astype("timedelta64[us]") for near in (wall - day, wall + day))
        return before, after


def fixed_zone(offset: int) -> Zone:
    """The zone with an offset in microseconds.

    >>> fixed_zone(int(5.5 * HOUR)).name, fixed_zone(0).name
    ('+05:30', 'UTC')
    """
    return Zone(offset_text(offset) if offset else "UTC", np.empty(0, "datetime64[us]"), np.array([offset]))


@lru_cache(maxsize=64)
def zone_named(name: str) -> Zone:
    """The zone of a name: of the IANA database, UTC, Z, or an offset, such as +01:00.

    Raises:
        DataError: for an unknown name; the text suggests similar ones.
    """
    if name.upper() in ("Z", "UTC", "GMT"):
        return fixed_zone(0)
    if name[:1] in "+-" and name[1:2].isdecimal():
        try:
            moment = datetime.fromisoformat("2000-01-01T00" + name)
        except ValueError:
            raise DataError(f"{name!r} is not an offset from UTC, for example +01:00.") from None
        return fixed_zone(microseconds(moment.utcoffset() or timedelta(0)))
    zone = _database_zone(name)
    start, weeks = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC), 53 * (LAST_YEAR - FIRST_YEAR)
    days = [start + timedelta(weeks=i) for i in range(weeks)]
    offsets = [_offset(zone, day) for day in days]
    changes, after = [], offsets[:1]
    for i in np.flatnonzero(np.diff(offsets)):
        low, high = days[i], days[i + 1]
        while high - low > timedelta(seconds=1):
            middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
            low, high = (middle, high) if _offset(zone, middle) == offsets[i] else (low, middle)
        changes.append(high.replace(tzinfo=None))
        after.append(offsets[i + 1])
    return Zone(name, np.array(changes, "datetime64[us]"), np.array(after, np.int64))


def find_zone(instants: Times, offsets: Offsets) -> tuple[Zone, bool]:
    """A zone with these offsets at these instants, which are in order.

    Returns:
        A zone of the database, or an unnamed zone that continues the last offset; and whether all zones of the
        database with these offsets agree in the next two years.
    """
    places = np.flatnonzero(np.diff(offsets))
    spread = np.linspace(0, len(offsets) - 1, min(NUM_SAMPLES, len(offsets))).astype(int)
    rows = np.concatenate([places, places + 1, spread])  # changes first, as they distinguish zones
    utc = [moment.replace(tzinfo=UTC) for moment in instants[rows].tolist()]
    moments = list(zip(utc, offsets[rows].tolist()))
    names = [name for name in _names() if all(_offset(ZoneInfo(name), at) == offset for at, offset in moments)]
    if not names:
        changes = instants[places + 1]
        return Zone(UNNAMED, changes, offsets[np.concatenate([[0], places + 1])]), False
    last = max(utc)
    ahead = [last + timedelta(days=i) for i in range(AHEAD_DAYS)]
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(_offset(ZoneInfo(name), day) for day in ahead), []).append(name)
    largest = max(groups.values(), key=len)
    return zone_named(largest[0]), len(groups) == 1


def zones_repeating(wall: np.datetime64) -> list[str]:
    """The zones in which this local time occurred twice, because clocks were set back."""
    moment = wall.astype("datetime64[us]").item()
    twice = []
    for name in _names():
        zone = ZoneInfo(name)
        first, second = (moment.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta(0) for fold in (0, 1))
        if first > second:
            twice.append(name)
    return twice


def some_of(names: Sequence[str]) -> str:
    """The first name, and the number of others."""
    more = len(names) - 1
    return names[0] + f" and {counted(more, 'other zone|zones')}" * (more > 0)


def offset_text(offset: int, style: str = "+hh:mm") -> str:
    """An offset in microseconds as `+hh:mm`, `+hhmm` or `+hh`.

    >>> offset_text(-int(3.5 * HOUR)), offset_text(HOUR, "+hhmm"), offset_text(HOUR, "+hh")
    ('-03:30', '+0100', '+01')
    """
    sign, size = "-" if offset < 0 else "+", abs(offset) // SECOND
    hours, minutes, seconds = size // 3600, size // 60 % 60, size % 60
    colon = "" if style == "+hhmm" else ":"
    text = f"{sign}{hours:02}" + f"{colon}{minutes:02}" * (style != "+hh" or minutes + seconds > 0)
    return text + f"{colon}{seconds:02}" * (seconds > 0)


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    """The names of the database: well-known cities first, then other names of regions."""
    rank = {name: number for number, name in enumerate(KNOWN_ZONES)}
    names = [name for name in available_timezones() if name not in ("Factory", "localtime")]
    return tuple(
        sorted(names, key=lambda name: (rank.get(name, len(rank)), "/" not in name, name.startswith("Etc"), name))
    )


def _database_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        names = _names()
        if not names:
            raise DataError(f"The time zone {name!r} needs the time zone database: pip install tzdata") from None
        hint = suggestion(name, names, "names are those of the IANA database, such as Europe/Berlin.")
        raise DataError(f"There is no time zone {name!r}; {hint}") from None


def _offset(zone: ZoneInfo, instant: datetime) -> int:
    return microseconds(instant.astimezone(zone).utcoffset() or timedelta(0))


def microseconds(delta: timedelta) -> int:
    """A duration as a whole number."""
    return delta // timedelta(microseconds=1)
