"""Times of series: zones, changes of clocks, calendars, and how times stand in files; pandas is the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from regard.data.series import SeriesTable, SeriesWindows, Step, forecasts_of, read_series
from regard.data.series.calendar import parse_step
from regard.data.series.zones import DAY, HOUR, MINUTE, find_zone, zone_named
from regard.errors import DataError

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Auckland", "Africa/Cairo")
SPANS = {"spring": ("2025-02-20", 45), "autumn": ("2025-10-01", 45), "april": ("2025-03-20", 45)}
"""Days around changes of clocks of both hemispheres."""
HISTORY, HORIZON = 8, 30


def days_of(kind: str, span: str) -> pd.DatetimeIndex:
    """Local times without a zone."""
    start, _ = SPANS[span]
    frequency = {
        "business": "B",
        "daily": "D",
        "month begin": "MS",
        "month end": "ME",
        "quarterly": "QE",
        "weekly": "W",
    }[kind]
    return pd.date_range(start, periods=HISTORY + 2 * HORIZON, freq=frequency)


def index_of(kind: str, zone: str, span: str) -> pd.DatetimeIndex:
    """pandas' times of a series in a zone."""
    if kind == "hourly":
        start, days = SPANS[span]
        return pd.date_range(start, periods=24 * days, freq="h", tz=zone)
    return days_of(kind, span).tz_localize(zone, nonexistent="shift_forward", ambiguous=True)


def texts_of(index: pd.DatetimeIndex, form: str) -> list[str]:
    if form == "local":
        return [str(time) for time in index.tz_localize(None)]
    if form == "utc":
        return [time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in index.tz_convert("UTC")]
    return [time.isoformat(sep=" ") for time in index]


def read(folder: Path, texts: list[str], **options: object) -> SeriesTable:
    path = folder / "a.csv"
    path.write_text("time,a\n" + "".join(f"{text},{i % 7}\n" for i, text in enumerate(texts)))
    return read_series(path, **options)


def waves_of(index: pd.DatetimeIndex, names: tuple[str, ...]) -> np.ndarray:
    """The time features, by pandas."""
    seconds = index.hour * 3600 + index.minute * 60 + index.second
    positions = {
        "hour_of_day": seconds / 86_400,
        "day_of_week": index.day_of_week / 7,
        "day_of_year": (index.day_of_year - 1) / 365.25,
        "month": (index.month - 1) / 12,
    }
    angles = [2 * np.pi * np.asarray(positions[name]) for name in names]
    return np.stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)], axis=-1)


@pytest.mark.parametrize("form", ["local", "offset", "utc"])
@pytest.mark.parametrize("kind", ["hourly", "daily", "business", "month begin", "month end", "weekly", "quarterly"])
@pytest.mark.parametrize("zone", ZONES)
def test_labels_features_and_futures_are_those_of_pandas(tmp_path: Path, zone: str, kind: str, form: str) -> None:
    for span in SPANS:
        index = index_of(kind, zone, span)
        texts = texts_of(index, form)
        for cut in range(20, len(index) - HORIZON, 173 if kind == "hourly" else 9):
            table = read(tmp_path, texts[:cut], zone=zone)
            assert len(table.series[0]) == cut
            assert table.num_missing == 0
            batch = SeriesWindows(table, history=HISTORY, horizon=HORIZON, in_future=True).batch([0])
            (forecast,) = forecasts_of(batch, np.zeros((1, HORIZON, 1)))
            assert forecast.stamps == texts[cut : cut + HORIZON]
            assert forecast.history_stamps == texts[cut - HISTORY : cut]
            names = table.step.features
            np.testing.assert_allclose(batch.future_known[0], waves_of(index[cut : cut + HORIZON], names), atol=1e-12)
            np.testing.assert_allclose(batch.history_known[0], waves_of(index[cut - HISTORY : cut], names), atol=1e-12)


def ahead(table: SeriesTable, count: int) -> list[list[str]]:
    """The labels of the next steps of each series."""
    batches = SeriesWindows(table, history=2, horizon=count, in_future=True, shortest_history=1)
    batch = batches.batch(range(len(batches)))
    forecasts = forecasts_of(batch, np.zeros((len(batches), count, len(table.target_names))))
    return [forecast.stamps for forecast in forecasts]


@pytest.mark.parametrize(
    ("zone", "frequency"),
    [
        *((zone, frequency) for zone in ZONES if zone != "Asia/Kolkata" for frequency in ("D", "B", "MS")),
        *((zone, "h") for zone in ("America/New_York", "Australia/Lord_Howe")),  # twenty thousand times each
    ],
)
def test_offsets_that_change_tell_the_zone(tmp_path: Path, zone: str, frequency: str) -> None:
    days = pd.date_range("2024-01-01", "2026-06-30", freq=frequency)
    index = days.tz_localize(zone, nonexistent="shift_forward", ambiguous=True).drop_duplicates()
    if frequency == "h":
        index = pd.date_range("2024-01-01", "2026-06-30", freq=frequency, tz=zone)
    texts = texts_of(index, "offset")
    changes = [i for i in range(1, len(texts)) if texts[i][-6:] != texts[i - 1][-6:]]
    for cut in (changes[1] + 2, changes[2] + 2, changes[3]):
        table = read(tmp_path, texts[:cut])
        assert str(table.series[0].clock.zone) == zone
        count = min(len(texts) - cut, 200)  # days, business days and months reach beyond the next change
        assert ahead(table, count) == [texts[cut : cut + count]]
        assert any(f"the calendar is that of {zone}, inferred from the offsets" in str(note) for note in table.notes)


def test_offsets_that_fit_several_zones_warn(tmp_path: Path) -> None:
    """On the first of each month from January to April Athens and Cairo go separate ways in April only."""
    texts = ["2025-01-01 00:00+02:00", "2025-02-01 00:00+02:00", "2025-03-01 00:00+02:00", "2025-05-01 00:00+03:00"]
    table = read(tmp_path, texts, fill_gaps=True)
    (warning,) = [note for note in table.notes if note.severity == "warning"]
    assert "offsets from UTC (+02:00, +03:00) fit Europe/Athens and other zones that differ later" in str(warning)


def test_offsets_that_belong_to_no_zone_go_on_and_warn(tmp_path: Path) -> None:
    texts = ["2025-01-01 00:00+01:00", "2025-01-01 01:00+01:00", "2025-01-01 05:00+04:00", "2025-01-01 06:00+04:00"]
    table = read(tmp_path, texts)
    assert ahead(table, 2) == [["2025-01-01 07:00+04:00", "2025-01-01 08:00+04:00"]]
    (warning,) = [note for note in table.notes if note.severity == "warning"]
    assert "offsets from UTC (+01:00, +04:00) fit no time zone; +04:00 is assumed after the last row" in str(warning)
    constant = read(tmp_path, ["2025-03-29 00:00+05:30", "2025-03-30 00:00+05:30"])
    assert ahead(constant, 1) == [["2025-03-31 00:00+05:30"]]


def test_each_series_of_a_file_has_its_zone(tmp_path: Path) -> None:
    rows = []
    for zone in ("Europe/Berlin", "America/New_York"):
        days = pd.date_range("2025-03-01", periods=40, freq="D", tz=zone)
        rows += [f"{time.isoformat()},{zone},1" for time in days]
    path = tmp_path / "a.csv"
    path.write_text("time,place,a\n" + "\n".join(rows) + "\n")
    table = read_series(path, series="place")
    assert [str(series.clock.zone) for series in table.series] == ["Europe/Berlin", "America/New_York"]
    assert ahead(table, 1) == [["2025-04-10T00:00:00+02:00"], ["2025-04-10T00:00:00-04:00"]]


FORMS = [
    (["2025-03-30T00:00Z", "2025-03-30T01:00Z"], "2025-03-30T02:00Z"),
    (["2025-03-30 00:00:00.000+0100", "2025-03-30 01:00:00.000+0100"], "2025-03-30 02:00:00.000+0100"),
    (["2025-03-30 00:00 +01", "2025-03-30 01:00 +01"], "2025-03-30 02:00 +01"),
    (["2025-01-01T01+01:00[Africa/Tunis]", "2025-01-01T02+01:00[Africa/Tunis]"], "2025-01-01T03+01:00[Africa/Tunis]"),
    (["2025-03-30 01:00 Europe/Berlin", "2025-03-30 03:00 Europe/Berlin"], "2025-03-30 04:00 Europe/Berlin"),
    (["20250330", "20250331"], "20250401"),
    (["20250330T23", "20250331T00"], "20250331T01"),
    (["202411", "202412"], "202501"),
    (["2024-11", "2024-12"], "2025-01"),
    (["2024Q3", "2024Q4"], "2025Q1"),
    (["2024-Q3", "2024-Q4"], "2025-Q1"),
    (["2024-W52", "2025-W01"], "2025-W02"),
    (["2023", "2024"], "2025"),
    (["2023-12-31", "2024-01-31", "2024-02-29"], "2024-03-31"),
    (["2024-01-31", "2024-02-29", "2024-03-29"], "2024-04-30"),
    (["2024-05-31", "2024-06-28", "2024-07-31"], "2024-08-30"),
    (["2024-04-01", "2024-05-01", "2024-06-03"], "2024-07-01"),
    (["2024-01-30", "2024-02-29", "2024-03-30"], "2024-04-30"),
    (["31.12.2024", "01.01.2025"], "02.01.2025"),
    (["28/02/2024 23:00", "29/02/2024 00:00"], "29/02/2024 01:00"),
    (["0", "1", "2"], "3"),
    (["-10", "0", "10"], "20"),
    (["998", "999", "1000"], "1001"),
    (["2025-01-01", "2025-01-01 12:00"], "2025-01-02 00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "following"), FORMS)
def test_times_go_out_as_they_came_in(tmp_path: Path, texts: list[str], following: str) -> None:
    assert ahead(read(tmp_path, texts), 1) == [[following]]


def test_a_format_has_its_offset_and_local_times_their_zone(tmp_path: Path) -> None:
    texts = ["30.03.2025 00:00 +0100", "30.03.2025 01:00 +0100", "30.03.2025 03:00 +0200"]
    table = read(tmp_path, texts, time_format="%d.%m.%Y %H:%M %z")
    assert ahead(table, 1) == [["30.03.2025 04:00 +0200"]]
    local = read(tmp_path, ["30.03.2025 01:00", "30.03.2025 03:00"], zone="Europe/Berlin", step="hours")
    assert local.num_missing == 0
    assert read(tmp_path, ["2025-03-30 01:00", "2025-03-30 02:00"], zone="+01:00").series[0].clock.zone.is_fixed  # type: ignore[union-attr]
    with pytest.raises(DataError, match="There is no time zone 'Europe/Berln'; did you mean 'Europe/Berlin'"):
        read(tmp_path, ["2025-01-01"], zone="Europe/Berln")
    with pytest.raises(
        DataError, match=r"a\.csv:2: .*'01/02/2024' may be a time of the format '%d/%m/%Y' or '%m/%d/%Y'"
    ):
        read(tmp_path, ["01/02/2024", "02/02/2024"])


ERRORS = [
    (
        ["2025-03-30 01:00", "2025-03-30 02:00", "2025-03-30 03:00"],
        {"zone": "Europe/Berlin"},
        r"a\.csv:3: the time '2025-03-30 02:00' does not exist: in Europe/Berlin clocks went from 02:00 to 03:00 on "
        r"2025-03-30\.",
    ),
    (
        ["2025-10-26 01:00", "2025-10-26 02:00", "2025-10-26 02:00", "2025-10-26 03:00"],
        {},
        r"a\.csv:4: the time 2025-10-26 02:00 is repeated from .*:3\.\n  Clocks were set back at this time in "
        r"Europe/Berlin and \d+ other zones: set the zone of the times \(data.time_zone\)",
    ),
    (
        ["2025-11-02 00:30", "2025-11-02 01:00", "2025-11-02 01:30", "2025-11-02 01:00"],
        {},
        r"the time 2025-11-02 01:00 is before 2025-11-02 01:30 of .*; sort the rows by time\.\n  Clocks were set back",
    ),
    (
        ["2025-03-28T23:00Z", "2025-03-29T23:00Z", "2025-03-30T22:00Z", "2025-03-31T22:00Z"],
        {},
        r"a\.csv:4: the time 2025-03-30T22:00Z is not a whole number .*; the step is 1 day\.\n  The difference is that "
        r"of a change of clocks: set the zone",
    ),
    (["2025-03-30 01:00+01:00", "2025-03-30 03:00"], {}, r"a\.csv:3: the time '2025-03-30 03:00' has no offset"),
    (
        ["2025-01-01 00:00 Europe/Berlin", "2025-01-02 00:00 Europe/Paris"],
        {},
        r"a\.csv:3: the time '2025-01-02 00:00 Europe/Paris' has another zone than '2025-01-01 00:00 Europe/Berlin'",
    ),
    (["2025-01-01 00:00 CEST", "2025-01-01 01:00 CEST"], {}, r"a\.csv:2: .* '2025-01-01 00:00 CEST': There is no time"),
    (["0", "1", "2"], {"zone": "Europe/Berlin"}, "whole numbers, which have no time zone; leave data.time_zone out"),
    (["0", "1", "2"], {"step": "days"}, "The times are whole numbers, so a step cannot be in days"),
    (
        ["2025-01-03", "2025-01-04", "2025-01-06"],
        {"step": "business_days"},
        r"a\.csv:3: the time 2025-01-04 is not a .* 1 business day\.\n  It is on a weekend: set data.step to days",
    ),
    (["2025-01-01", "2025-01-02"], {"step": "busines_days"}, "got 'busines_days'. did you mean 'business_days'"),
    (
        ["2025-01-01 00:00+01:00[Africa/Tunis]", "2025-01-01 02:00+02:00[Africa/Tunis]"],
        {},
        r"a\.csv:3: the time '2025-01-01 02:00\+02:00\[Africa/Tunis\]': the offset of Africa/Tunis is \+01:00",
    ),
    (["2025-01-01", "2025-01-02"], {"step": "2 rows"}, "got '2 rows'"),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "options", "message"), ERRORS)
def test_errors_name_what_stands_in_the_file(tmp_path: Path, texts: list[str], options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, texts, **options)


def test_an_hour_that_comes_twice_is_read_in_order(tmp_path: Path) -> None:
    quarters = pd.date_range("2025-10-26", periods=20, freq="15min", tz="Europe/Berlin")
    for start in (0, 8, 9, 12, 13):  # also from within the first and the second of the two hours
        table = read(tmp_path, texts_of(quarters[start:], "local"), zone="Europe/Berlin")
        expected = quarters[start:].tz_convert("UTC").tz_localize(None).to_numpy("datetime64[us]")
        np.testing.assert_array_equal(table.series[0].times, expected)


def test_a_wall_clock_may_count_hours(tmp_path: Path) -> None:
    """Shifts at 6, 14 and 22 o'clock are three a day, also when the night has seven or nine hours."""
    days = pd.date_range("2025-03-28", periods=4, freq="D")
    texts = [f"{day:%Y-%m-%d} {hour:02}:00" for day in days for hour in (6, 14, 22)]
    table = read(tmp_path, texts[:9], zone="Europe/Berlin")
    assert (str(table.step), table.num_missing) == ("8 hours", 0)
    assert ahead(table, 3) == [texts[9:]]


def test_days_of_24_hours_are_durations_where_the_clock_moves(tmp_path: Path) -> None:
    days = pd.date_range("2025-03-28", periods=6, freq="24h", tz="UTC").tz_convert("Europe/Berlin")
    texts = texts_of(days, "offset")
    assert ahead(read(tmp_path, texts[:4]), 2) == [texts[4:]]


def test_business_days_are_found_and_holidays_are_missing(tmp_path: Path) -> None:
    days = pd.bdate_range("2025-12-01", periods=30)
    texts = [str(day.date()) for day in days if (day.month, day.day) not in {(12, 25), (1, 1)}]
    table = read(tmp_path, texts[:20], fill_gaps=True)
    assert (str(table.step), table.step.period, table.num_missing) == ("1 business day", 5, 1)
    assert any("the step is a business day" in str(note) for note in table.notes)
    assert ahead(table, 3) == [[str(day.date()) for day in days[21:24]]]
    few = read(tmp_path, texts[:7], fill_gaps=True)  # a single weekend may be two missing days
    assert str(few.step) == "1 day"
    assert str(read(tmp_path, texts[:7], step="business_days").step) == "1 business day"
    weekends = [str(day.date()) for day in pd.date_range("2025-12-01", periods=30)]
    assert str(read(tmp_path, weekends).step) == "1 day"


def test_rows_are_steps_whatever_their_times(tmp_path: Path) -> None:
    texts = ["2025-01-01 09:30", "2025-01-01 09:31", "2025-01-01 11:00", "2025-01-02 09:30", "2025-01-07 10:00"]
    with pytest.raises(DataError, match=r"a\.csv:5: [^$]*set data.step to rows"):
        read(tmp_path, ["2025-01-01 09:30", "2025-01-01 09:31", "2025-01-01 09:32", "2025-01-01 11:00:30"])
    table = read(tmp_path, texts, step="rows")
    assert (len(table.series[0]), table.num_missing, table.step.features, table.step.period) == (5, 0, (), 1)
    assert ahead(table, 2) == [["", ""]]
    assert str(read(tmp_path, ["0", "5", "6"], step="rows").step) == "1 row, whatever its time"


def test_a_file_without_a_column_of_times_has_numbered_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("0.5,1.5\n0.6,1.4\n0.7,1.3\n")
    with pytest.raises(
        DataError, match=r"a\.csv:1: column 'column 1': '0\.5' is not a time; .*\n.*set data.numbered_rows"
    ):
        read_series(path)
    table = read_series(path, time=False)
    assert (table.target_names, len(table.series[0])) == (("column 1", "column 2"), 3)
    assert ahead(table, 2) == [["3", "4"]]


def test_steps_have_names() -> None:
    day = np.array(["2024-02-29"], "datetime64[us]")
    steps = {
        "15 minutes": Step(microseconds=15 * MINUTE),
        "hour": Step(microseconds=HOUR),
        "2 weeks": Step(microseconds=14 * DAY),
        "business-days": Step(microseconds=DAY, business=True),
        "quarters": Step(months=3, month_end=True),
        "Years": Step(months=12, month_end=True),
    }
    assert {name: parse_step(name, day) for name in steps} == steps


def test_zones_of_the_database_are_those_of_pandas() -> None:
    hours = pd.date_range("1990-01-01", "2031-01-01", freq="6h", tz="UTC")
    instants = hours.tz_localize(None).to_numpy("datetime64[us]")
    for name in (*ZONES, "Africa/Casablanca", "America/Sao_Paulo", "Asia/Tehran"):
        wall = hours.tz_convert(name).tz_localize(None).to_numpy("datetime64[us]")
        np.testing.assert_array_equal(zone_named(name).wall(instants), wall)
    offsets = zone_named("America/Toronto").offsets_at(instants)
    zone, _ = find_zone(instants, offsets)
    assert zone.name in ("America/New_York", "America/Toronto")
    np.testing.assert_array_equal(zone.offsets_at(instants), offsets)
