"""Times as texts: reading the forms of files, and writing in the same form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
from numpy.typing import NDArray

from regard.data.series.zones import Times, Zone, microseconds, offset_text, zone_named

PRECISIONS = ("Y", "M", "D", "h", "m", "s", "ms", "us")
"""Units of numpy in written times, from years to microseconds."""
LENGTHS = {10: "D", 13: "h", 16: "m", 19: "s", 23: "ms"}
BASIC_LENGTHS = {8: "D", 11: "h", 13: "m", 15: "s"}
"""The precision of ISO 8601 texts without offset by their length; microseconds for other lengths."""
PLACE_OF_OFFSET = "\ue000"
QUARTER = re.compile(r"(\d{4})(-?)[Qq]([1-4])")
WEEK = re.compile(r"(\d{4})-?W(\d{2})")
OFFSET = re.compile(r"\s*([+-]\d{2}(?::?\d{2}){0,2}|[Zz])$")
NAME = re.compile(r"(.*?)(?:\s*\[([A-Za-z0-9_+/-]+)\]|\s+([A-Za-z][A-Za-z0-9_+/-]*))$")
INTEGER = re.compile(r"[+-]?\d+")
FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%b %Y", "%d %b %Y")
CLOCKS = ("", " %H:%M", " %H:%M:%S")
"""Formats other than ISO 8601: each date with each time of day."""


@dataclass(frozen=True, slots=True)
class TimeForm:
    """The form of written times.

    Args:
        precision: a unit of numpy; "Q" and "W" for quarters and weeks.
        separator: between date and time of day, and, for quarters, before the Q.
        offset: empty, "Z", "+hh:mm", "+hhmm" or "+hh", with a leading space if the texts have one.
        name: empty, or "[]" or " " if the zone's name follows in brackets or after a space.
        format: a format of `datetime.strptime`, which replaces everything but the offset.
        is_basic: dates without hyphens.
        is_integer: whole numbers that count steps.
    """

    precision: str = "D"
    separator: str = " "
    offset: str = ""
    name: str = ""
    format: str | None = None
    is_basic: bool = False
    is_integer: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A time read from a text.

    Args:
        wall: local time, without the offset.
        offset: in microseconds, or None.
        zone: the name of a zone, or empty.
    """

    wall: datetime
    offset: int | None
    zone: str
    form: TimeForm


def read_moment(text: str, time_format: str | None = None) -> Moment:
    """A time from ISO 8601 (also a year, month, quarter or week), with an offset or a zone's name, or from a format.

    Raises:
        ValueError: for other texts.

    >>> moment = read_moment("2025-03-30T01:00+01:00[Europe/Berlin]")
    >>> str(moment.wall), moment.offset, moment.zone
    ('2025-03-30 01:00:00', 3600000000, 'Europe/Berlin')
    """
    text = text.strip()
    if time_format is not None:
        moment = datetime.strptime(text, time_format)
        written = OFFSET.search(text) if "%z" in time_format else None
        form = TimeForm("us", offset=_offset_style(written[0]) if written else "", format=time_format)
        ahead = moment.utcoffset()
        return Moment(moment.replace(tzinfo=None), None if ahead is None else microseconds(ahead), "", form)
    zone, name_style = "", ""
    has_name = text[-1:] == "]" or (text[-1:].isalpha() and text[-1] not in "Zz")
    if has_name and (named := NAME.fullmatch(text)):
        text, zone = named[1], named[2] or named[3]
        name_style = "[]" if named[2] else " "
    offset, style = None, ""
    if len(text) > 10 and (written := OFFSET.search(text)):
        text, style = text[: written.start()], _offset_style(written[0])
        offset = microseconds(datetime.fromisoformat("2000-01-01T00" + written[1].upper()).utcoffset() or timedelta(0))
    wall, form = _read_wall(text)
    return Moment(wall, offset, zone, replace(form, offset=style, name=name_style))


def is_moment(text: str, time_format: str | None = None) -> bool:
    """Whether `read_moment` reads a text."""
    try:
        read_moment(text, time_format)
    except (ValueError, IndexError):
        return False
    return True


def finest(forms: Sequence[TimeForm]) -> TimeForm:
    """The form with the most digits, as midnights may be written as dates."""
    form = max(forms, key=lambda form: PRECISIONS.index(form.precision) if form.precision in PRECISIONS else 0)
    with_offset = next((other.offset for other in forms if other.offset not in ("", "Z")), form.offset)
    return replace(form, offset=with_offset)


def formats_of(texts: Sequence[str]) -> list[str]:
    """The common formats of `strptime` that read the most texts, if that is more than half of them.

    >>> formats_of(["01/02/2024", "31/01/2024"]), formats_of(["01/02/2024"])
    (['%d/%m/%Y'], ['%d/%m/%Y', '%m/%d/%Y'])
    """
    formats = [date + clock for date in FORMATS for clock in CLOCKS]
    counts = [sum(is_moment(text, each) for text in texts) for each in formats]
    return [each for each, count in zip(formats, counts) if count == max(counts) and 2 * count > len(texts)]


@dataclass(frozen=True, eq=False)
class Clock:
    """The calendar of a series and the form of its written times.

    Times are instants in UTC if there is a zone, otherwise as in the file.

    Args:
        zone: the zone of hours, days and months.
        written: the zone of the texts; that of the calendar if None.
        form: the form of written times; as `stamps_of` if None.

    >>> clock = Clock(zone_named("Europe/Berlin"), form=TimeForm("m", offset="+hh:mm"))
    >>> clock.texts(np.array(["2025-03-30T00:00", "2025-03-30T01:00"], "datetime64[us]"))
    ['2025-03-30 01:00+01:00', '2025-03-30 03:00+02:00']
    """

    zone: Zone | None = None
    written: Zone | None = None
    form: TimeForm | None = None

    @property
    def is_integer(self) -> bool:
        """Whether times are whole numbers that count steps."""
        return self.form is not None and self.form.is_integer

    def wall(self, times: Times) -> Times:
        """Local times of the calendar."""
        return times if self.zone is None else self.zone.wall(times)

    def instants(self, wall: Times) -> Times:
        """The instants of local times; the first of two if an hour is repeated."""
        return wall if self.zone is None else self.zone.instants(wall)

    def read(self, text: str | int) -> np.datetime64:
        """The time of a text, such as one in a configuration.

        Raises:
            ValueError: if the text is not a time.
        """
        if self.is_integer:
            return np.datetime64(int(text), "us")
        moment = read_moment(str(text), self.form.format if self.form and not str(text)[:4].isdecimal() else None)
        wall = np.datetime64(moment.wall, "us")
        if self.zone is None:
            return wall
        if moment.offset is not None:
            return wall - np.timedelta64(moment.offset, "us")
        return (zone_named(moment.zone) if moment.zone else self.zone).instants(np.array([wall]))[0]

    def shown(self, time: np.datetime64) -> str:
        """A time for messages."""
        if np.isnat(time):
            return "an unknown time"
        if self.is_integer:
            return str(time.astype(np.int64))
        zone = self.written or self.zone
        offset = 0 if zone is None else int(zone.offsets_at(np.array([time]))[0])
        (text,) = stamps_of(np.array([time + np.timedelta64(offset, "us")]))
        style = "" if zone is None else (self.form or TimeForm()).offset.strip()
        return text + (style if style == "Z" else offset_text(offset, style) if style else "")

    def texts(self, times: Times, among: Times | None = None) -> list[str]:
        """Times in the form of the file, or as `stamps_of` without a form; empty for unknown times."""
        if self.is_integer:
            return [str(number) for number in times.astype(np.int64).tolist()]
        form = self.form
        zone = self.written or self.zone
        offsets = np.zeros(len(times), np.int64)
        known = ~np.isnat(times)
        if zone is not None:
            offsets[known] = zone.offsets_at(times[known])
        wall = times + offsets.astype("timedelta64[us]")
        if form is None:
            return stamps_of(wall, among)
        if form.format is not None:
            texts = [_formatted(form.format, moment, offset) for moment, offset in zip(wall.tolist(), offsets.tolist())]
        else:
            texts = _iso(form, wall, self._days(times, wall, zone))
        if form.offset:
            bare = form.offset.strip()
            ends = ["Z" if bare == "Z" else offset_text(offset, bare) for offset in offsets.tolist()]
            before = form.offset[: len(form.offset) - len(bare)]
            if form.format is None:
                texts = [text + before + end for text, end in zip(texts, ends)]
            else:
                texts = [text.replace(PLACE_OF_OFFSET, end) for text, end in zip(texts, ends)]
        if form.name and zone is not None:
            texts = [f"{text}[{zone}]" if form.name == "[]" else f"{text} {zone}" for text in texts]
        return [text if is_known else "" for text, is_known in zip(texts, known)]

    def _days(self, times: Times, wall: Times, zone: Zone | None) -> NDArray[np.bool_]:
        """Whether times are the first of their day: midnight, or the end of a change of clocks that skips it."""
        dates = wall.astype("datetime64[D]").astype("datetime64[us]")
        return (wall == dates) if zone is None else (zone.instants(dates) == times)


NAIVE = Clock()
"""Times without a zone."""


def stamps_of(times: Times, among: Times | None = None) -> list[str]:
    """Times as texts: dates if all of `among` (`times` if None) are at midnight, else with seconds or microseconds.

    >>> stamps_of(np.array(["2024-01-01T00:00", "2024-01-01T06:00"], "datetime64[us]"))
    ['2024-01-01 00:00:00', '2024-01-01 06:00:00']
    """
    among = times if among is None else among
    among = among[~np.isnat(among)]
    unit = next((unit for unit in ("D", "s") if (among == among.astype(f"datetime64[{unit}]")).all()), "us")
    texts = [stamp.replace("T", " ") for stamp in times.astype(f"datetime64[{unit}]").astype(str).tolist()]
    return ["" if text == "NaT" else text for text in texts]


def _read_wall(text: str) -> tuple[datetime, TimeForm]:
    """A time without an offset, and its form."""
    if len(text) == 4 and text.isdecimal():
        return datetime(int(text), 1, 1), TimeForm("Y")
    if len(text) == 7 and text[4] == "-" and text[5:].isdecimal():
        return datetime(int(text[:4]), int(text[5:]), 1), TimeForm("M")
    if len(text) == 6 and text.isdecimal():
        return datetime(int(text[:4]), int(text[4:]), 1), TimeForm("M", is_basic=True)
    if quarter := QUARTER.fullmatch(text):
        return datetime(int(quarter[1]), 3 * int(quarter[3]) - 2, 1), TimeForm("Q", quarter[2])
    moment = datetime.fromisoformat(text)
    if WEEK.fullmatch(text):
        return moment, TimeForm("W", is_basic="-" not in text)
    is_basic = text[4:5] != "-"
    if is_basic:
        return moment, TimeForm(BASIC_LENGTHS.get(len(text), "us"), text[8:9] or " ", is_basic=True)
    return moment, TimeForm(LENGTHS.get(len(text), "us"), text[10:11] or " ")


def _iso(form: TimeForm, wall: Times, is_day: NDArray[np.bool_]) -> list[str]:
    """Times in ISO 8601, with more digits than the form if they need them."""
    known = ~np.isnat(wall)
    if form.precision == "Q" and is_day[known].all():
        months = wall.astype("datetime64[M]").astype(np.int64)
        return [f"{1970 + month // 12}{form.separator}Q{month % 12 // 3 + 1}" for month in months.tolist()]
    if form.precision == "W" and is_day[known].all():
        return [f"{day:%G-W%V}" if day else "" for day in wall.astype("datetime64[D]").tolist()]
    first = PRECISIONS.index(form.precision) if form.precision in PRECISIONS else PRECISIONS.index("D")

    def fits(unit: str) -> bool:
        exact = wall == wall.astype(f"datetime64[{unit}]")
        return bool((exact | is_day if unit == "D" else exact)[known].all())

    unit = next((unit for unit in PRECISIONS[first:] if fits(unit)), "us")
    texts = np.datetime_as_string(wall, unit=unit).tolist()  # type: ignore[call-overload]
    if form.is_basic:
        texts = [text.replace("-", "").replace(":", "") for text in texts]
    return [text.replace("T", form.separator) for text in texts]


def _formatted(time_format: str, moment: datetime | None, offset: int) -> str:
    if moment is None:
        return ""
    zone = timezone(timedelta(microseconds=offset))
    return moment.replace(tzinfo=zone if offset else UTC).strftime(time_format.replace("%z", PLACE_OF_OFFSET))


def _offset_style(text: str) -> str:
    """The style of an offset, with a leading space if the text has one."""
    bare = text.strip()
    style = "Z" if bare in "Zz" else "+hh:mm" if ":" in bare else "+hhmm" if len(bare) == 5 else "+hh"
    return " " * (text[0] == " ") + style
