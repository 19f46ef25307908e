"""Time series: reading, steps, features of time, parts, scales and windows."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.series import (
    Series,
    SeriesTable,
    SeriesWindows,
    StandardScale,
    Step,
    WindowScale,
    find_step,
    read_series,
    rolling_splits,
    split_by_counts,
    split_by_dates,
    split_by_fractions,
    time_features,
)
from regard.data.series.calendar import DAY, HOUR, MINUTE, SECOND, WEEK
from regard.data.series.checks import check_values
from regard.errors import DataError, UnsupportedError


def written(folder: Path, text: str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def hours(count: int, start: str = "2024-01-01T00") -> np.ndarray:
    return np.datetime64(start, "us") + np.arange(count) * np.timedelta64(1, "h")


def table_of(*targets: np.ndarray, known: np.ndarray | None = None, step: Step | None = None) -> SeriesTable:
    """Hourly series "s0", "s1", … with these targets (N, F)."""
    series = []
    for i, values in enumerate(targets):
        inputs = np.zeros((len(values), 0)) if known is None else known
        rows = np.full((len(inputs) if known is not None else len(values), values.shape[1]), np.nan)
        rows[: len(values)] = values
        series.append(Series(f"s{i}", hours(len(rows)), rows, inputs))
    names = tuple(f"f{i}" for i in range(targets[0].shape[1]))
    known_names = () if known is None else tuple(f"k{i}" for i in range(known.shape[1]))
    return SeriesTable(tuple(series), names, known_names, step or Step(microseconds=HOUR))


def ramp(count: int, targets: int = 1, start: float = 0.0) -> np.ndarray:
    return start + np.arange(count)[:, None] + 100.0 * np.arange(targets)


# Reading


def test_the_first_column_is_time_and_the_others_are_targets(tmp_path: Path) -> None:
    table = read_series(written(tmp_path, "date,a,b\n2024-01-01,1,2\n2024-01-01 01:00,3,\n2024-01-01 02:00,NA,nan\n"))
    (series,) = table.series
    assert (series.name, table.target_names, table.known_names, str(table.step)) == ("", ("a", "b"), (), "1 hour")
    np.testing.assert_array_equal(series.targets, [[1, 2], [3, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(series.observed, [[True, True], [True, False], [False, False]])
    assert series.end == 2  # rows after the last observed one are of the future
    assert table.num_missing == 1
    assert "1 series, 3 rows of 1 hour, 2024-01-01 to 2024-01-01 02:00:00" in str(table)


def test_semicolons_tabs_quotes_blank_lines_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    text = '\ufefftime;"a;b"\n\n2024-01-01;1\n2024-01-02;"2"\n\n'
    assert read_series(written(tmp_path, text)).target_names == ("a;b",)
    assert read_series(written(tmp_path, "t\ta\n2024\t1\n2025\t2\n")).step == Step(months=12)


def test_a_column_names_the_series_whose_rows_may_be_mixed(tmp_path: Path) -> None:
    text = "day,shop,sold,holiday\n2024-01-01,b,1,0\n2024-01-01,a,10,0\n"
    text += "2024-01-02,b,2,1\n2024-01-02,a,20,1\n2024-01-03,a,,0\n"
    table = read_series(written(tmp_path, text), series="shop", known=["holiday"])
    assert table.names == ("b", "a")
    assert (table.target_names, table.known_names) == (("sold",), ("holiday",))
    np.testing.assert_array_equal(table.series[1].targets[:, 0], [10, 20, np.nan])
    np.testing.assert_array_equal(table.series[1].known[:, 0], [0, 1, 0])
    assert [series.end for series in table.series] == [2, 2]


def test_wide_columns_are_series_of_one_target(tmp_path: Path) -> None:
    path = written(tmp_path, "day,a,b,holiday\n2024-01-01,1,3,0\n2024-01-02,2,4,1\n")
    table = read_series(path, wide=True, known=["holiday"])
    assert (table.names, table.target_names) == (("a", "b"), ("value",))
    np.testing.assert_array_equal(table.series[1].targets, [[3], [4]])
    np.testing.assert_array_equal(table.series[1].known, [[0], [1]])
    with pytest.raises(DataError, match="wide file every target column is a series"):
        read_series(written(tmp_path, "t,s,a\n2024-01-01,x,1\n2024-01-02,x,1\n"), wide=True, series="s")


def test_gaps_become_missing_rows_only_on_request(tmp_path: Path) -> None:
    path = written(tmp_path, "day,a\n2024-01-01,1\n2024-01-02,2\n2024-01-03,3\n2024-01-06,6\n")
    with pytest.raises(DataError, match=r"a\.csv:5: the time 2024-01-06 is 3 steps of 1 day after 2024-01-03; 2 rows"):
        read_series(path)
    (series,) = read_series(path, fill_gaps=True).series
    np.testing.assert_array_equal(series.targets[:, 0], [1, 2, 3, np.nan, np.nan, 6])
    assert str(series.times[3])[:10] == "2024-01-04"


WRONG = {
    "repeated": (
        "t,a\n2024-01-01,1\n2024-01-02,1\n2024-01-02,2\n",
        r"a\.csv:4: the time 2024-01-02 is repeated from .*:3\.",
    ),
    "unsorted": (
        "t,a\n2024-01-02,1\n2024-01-01,1\n",
        r"a\.csv:3: the time 2024-01-01 is before 2024-01-02 of .*:2; sort",
    ),
    "irregular": (
        "t,a\n2024-01-01,1\n2024-01-02,1\n2024-01-03,1\n2024-01-03 07:00,2\n",
        r"a\.csv:5: the time 2024-01-03 07:00 is not a whole number of steps after 2024-01-01 of .*:2; the step is 1 d",
    ),
    "no number": ("t,a\n2024-01-01,1\n2024-01-02,x\n", r"a\.csv:3: column 'a': 'x' is not a number"),
    "comma": (
        't,a\n2024-01-01,"1,5"\n2024-01-02,1.5\n',
        r"a\.csv:2: column 'a': the comma in '1,5' may be a decimal mark or .*; '1\.5' in .*:3 has a point",
    ),
    "infinite": ("t,a\n2024-01-01,inf\n", r"a\.csv:2: column 'a': 'inf' is not finite"),
    "no time": (
        "t,a\n2024-01-01,1\n01/02/2024,2\n",
        r"a\.csv:3: column 't': '01/02/2024' is not a time; expected ISO 8601",
    ),
    "columns": ("t,a\n2024-01-01,1,2\n", r"a\.csv:2: 3 columns; the header has 2"),
    "quotes": ('t,a\n2024-01-01,"1\n', r"a\.csv:2: unmatched quotation marks"),
    "empty": ("", "the file is empty"),
    "no rows": ("t,a\n", "no rows after the header"),
    "one row": ("t,a\n2024-01-01,1\n", "no series has two rows, so their step is unknown"),
    "no target": ("t\n2024-01-01\n", "no column to forecast beside 't'"),
    "twice": ("t,a,a\n2024-01-01,1,1\n", "column 'a' occurs twice"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_read_is_named_with_file_line_and_value(tmp_path: Path, kind: str) -> None:
    text, message = WRONG[kind]
    with pytest.raises(DataError, match=message):
        read_series(written(tmp_path, text))


def test_columns_that_are_not_there_or_have_two_purposes_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "time,load,temp\n2024-01-01,1,2\n2024-01-02,1,2\n")
    with pytest.raises(DataError, match="no column 'lod'; did you mean 'load'"):
        read_series(path, targets=["lod"])
    with pytest.raises(DataError, match="no column 'xyz'; it has 'time, load, temp'"):
        read_series(path, known=["xyz"])
    with pytest.raises(DataError, match="'load' is named for two purposes"):
        read_series(path, targets=["load"], known=["load"])
    with pytest.raises(DataError, match="no such file"):
        read_series(tmp_path / "absent.csv")


def test_a_series_whose_step_is_given_may_have_one_row(tmp_path: Path) -> None:
    path = written(tmp_path, "t,a\n2024-01-01,1\n")
    assert len(read_series(path, step=Step(microseconds=DAY)).series[0]) == 1


def test_times_have_offsets_formats_and_short_forms(tmp_path: Path) -> None:
    path = written(tmp_path, "t,a\n31.12.2023,1\n01.01.2024,2\n")
    assert read_series(path, time_format="%d.%m.%Y").step == Step(microseconds=DAY)


def test_parquet_without_its_packages_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnsupportedError, match=r"Parquet needs the pandas package: pip install 'regard\[series\]'"):
        read_series(tmp_path / "a.parquet")


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs the extra series")
def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    text = "day,shop,sold,holiday\n2024-01-01,b,1,0\n2024-01-01,a,10,0\n2024-01-02,b,,1\n2024-01-02,a,20,1\n"
    from_csv = read_series(written(tmp_path, text), series="shop", known=["holiday"])
    frame = pandas.read_csv(tmp_path / "a.csv", parse_dates=["day"])
    frame.to_parquet(tmp_path / "a.parquet")
    frame.assign(day=frame.day.dt.tz_localize("UTC")).set_index("day").to_parquet(tmp_path / "indexed.parquet")
    frame.astype({"day": str}).to_parquet(tmp_path / "texts.parquet")
    for name in ("a", "indexed", "texts"):
        table = read_series(tmp_path / f"{name}.parquet", series="shop", known=["holiday"])
        assert (table.names, table.step) == (from_csv.names, from_csv.step)
        for one, other in zip(table.series, from_csv.series, strict=True):
            np.testing.assert_array_equal(one.targets, other.targets)
            np.testing.assert_array_equal(one.times, other.times)
    pandas.concat([frame, frame]).to_parquet(tmp_path / "twice.parquet")
    with pytest.raises(DataError, match=r"twice\.parquet: row \d+: the time"):
        read_series(tmp_path / "twice.parquet", time="day", series="shop", targets=["sold"])
    written(tmp_path, "no", "bad.parquet")
    with pytest.raises(DataError, match="not a Parquet file"):
        read_series(tmp_path / "bad.parquet")


# What files look like


@pytest.mark.parametrize(
    "text",
    [
        "time;load, net\n2024-01-01;1,5\n2024-01-02;-0,25\n",
        "sep=;\ntime;load, net\n2024-01-01;1,5\n2024-01-02;-0,25\n",
        "\ufeffsep=|\r\ntime|load, net\r\n2024-01-01|1.5\r\n2024-01-02|-0.25\r\n",
        "time\tload, net\n2024-01-01\t1.5\n2024-01-02\t-.25\n",
        'time,"load, net"\n2024-01-01,"1,5"\n2024-01-02,"-0,25"\n',
        ',time,"load, net"\n0,2024-01-01,1.5\n1,2024-01-02,-0.25\n',
        'Unnamed: 0,time,"load, net"\n1,2024-01-01,1.5\n2,2024-01-02,-0.25\n',
        "time;load, net;\n2024-01-01;1,5;\n2024-01-02;-0,25;\n",
    ],
)
def test_files_are_read_as_programs_write_them(tmp_path: Path, text: str) -> None:
    table = read_series(written(tmp_path, text))
    assert table.target_names == ("load, net",)
    assert table.series[0].targets[:, 0].tolist() == [1.5, -0.25]
    assert [str(time)[:10] for time in table.series[0].times] == ["2024-01-01", "2024-01-02"]


def test_a_nameless_index_of_times_is_the_time_and_one_of_numbers_if_there_is_no_other(tmp_path: Path) -> None:
    times = read_series(written(tmp_path, ",a,b\n2024-01-01,1,2\n2024-01-02,3,4\n"))
    assert (times.target_names, str(times.step)) == (("a", "b"), "1 day")
    numbers = read_series(written(tmp_path, ",a,b\n0,1,2\n1,3,4\n"))
    assert (numbers.target_names, numbers.series[0].times.astype(int).tolist()) == (("a", "b"), [0, 1])


def test_a_file_without_a_header_keeps_its_first_row(tmp_path: Path) -> None:
    rows = "2024-01-01,1,2\n2024-01-02,3,4\n"
    table = read_series(written(tmp_path, rows))
    assert (len(table.series[0]), table.target_names) == (2, ("column 2", "column 3"))
    assert "info: line 1 has times or numbers and is not a header; columns are 'column 1' to 'column 3'" in map(
        str, table.notes
    )
    assert len(read_series(written(tmp_path, "1,2\n2,3\n3,4\n")).series[0]) == 3
    shops = read_series(written(tmp_path, "01.02.2024;x;1\n02.02.2024;x;2\n"), series="column 2")
    assert (shops.names, len(shops.series[0])) == (("x",), 2)
    wide = read_series(written(tmp_path, "time,2024-01-01,2024-02-01\n2024-01-01,1,2\n2024-01-02,3,4\n"))
    assert wide.target_names == ("2024-01-01", "2024-02-01")
    assert len(read_series(written(tmp_path, "1,2\n2,3\n3,4\n"), header=True).series[0]) == 2


def test_separators_of_thousands_are_read_where_they_are_certain(tmp_path: Path) -> None:
    def values(text: str, **options: object) -> list[float]:
        return read_series(written(tmp_path, text), **options).series[0].targets[:, 0].tolist()  # type: ignore[arg-type]

    head = "t;a\n2024-01-01;"
    assert values(head + "1.234,5\n2024-01-02;12\n") == [1234.5, 12]
    assert values(head + "1,234.5\n2024-01-02;1,234,567\n") == [1234.5, 1234567]
    assert values(head + "1,234\n2024-01-02;0.5\n") == [1234, 0.5]
    assert values(head + "1,234\n2024-01-02;2,500\n", decimal=",") == [1.234, 2.5]
    assert values(head + "1,234\n2024-01-02;2,500\n", decimal=".") == [1234, 2500]
    with pytest.raises(DataError, match=r"a\.csv:2: column 'a': the comma in '1,234' may be a decimal mark or"):
        values(head + "1,234\n2024-01-02;2,500\n")
    with pytest.raises(DataError, match=r"a\.csv:3: column 'a': '1.5' is not a number"):
        values(head + "1,2\n2024-01-02;1.5\n", decimal=",")


def test_codes_of_missing_values_are_missing_and_counted(tmp_path: Path) -> None:
    text = "t,a,b\n2024-01-01,-9999,1\n2024-01-02,-9999.0,x\n2024-01-03,5,-\n2024-01-04,?,-9999\n2024-01-05,1,2\n"
    table = read_series(written(tmp_path, text), missing_values=[-9999, "X", 7])
    np.testing.assert_array_equal(np.isnan(table.series[0].targets), [[1, 0], [1, 1], [0, 1], [1, 1], [0, 0]])
    notes = [str(note) for note in table.notes]
    assert f"info: 'a' is -9999 in 2 rows, counted as missing ({tmp_path / 'a.csv'}:2, …)" in notes
    assert "warning: no value is 7 (data.missing_values)" in notes


# Values that look wrong


def wavy(count: int = 1500) -> np.ndarray:
    rng = np.random.default_rng(0)
    return 20 + 10 * np.sin(np.arange(count) / 24 * 2 * np.pi) + rng.normal(size=count)


@pytest.mark.parametrize(
    "values", [[-9999.0] * 4, [999.0] * 3, [1e20], [-1e300, 1e300], [9999.0] * 200, [-99.0, -99.0]]
)
def test_values_that_ruin_a_scale_are_named_with_their_lines(tmp_path: Path, values: list[float]) -> None:
    series = wavy()
    at = np.linspace(100, 1400, len(values)).astype(int)
    series[at] = values
    rows = [f"{time},{value}" for time, value in zip(hours(1500).astype("datetime64[s]"), series.tolist())]
    path = written(tmp_path, "t,a\n" + "\n".join(rows) + "\n")
    (finding,) = check_values("train", read_series(path))
    text = str(finding)
    assert text.startswith(f"warning: train: 'a' has {len(values)} value")
    assert f"{values[0]:g}" in text
    assert f"{path}:{at[0] + 2}" in text
    assert finding.count == len(values)


def test_ordinary_series_are_not_accused() -> None:
    rng = np.random.default_rng(1)
    usual = {
        "wave": wavy(),
        "rare sales": np.where(rng.random(1500) < 0.15, rng.poisson(3, 1500), 0),
        "prices": np.exp(rng.normal(size=1500).cumsum() / 30),
        "log-normal": rng.lognormal(sigma=1.0, size=1500),
        "walk": rng.normal(size=1500).cumsum(),
        "solar": np.clip(np.sin(np.arange(1500) / 24 * 2 * np.pi), 0, None) * rng.random(1500),
        "two states": (rng.random(1500) < 0.5).astype(float),
        "percent": rng.integers(0, 100, 1500).astype(float),
    }
    for name, values in usual.items():
        found = list(check_values("train", SeriesTable.of({"": values}, "2024-01-01", Step(microseconds=HOUR))))
        assert not found, (name, list(map(str, found)))


def test_values_that_stand_still_are_named() -> None:
    series = wavy()
    series[300:420] = 0.0
    (finding,) = check_values("train", SeriesTable.of({"": series}, "2024-01-01", Step(microseconds=HOUR)))
    assert str(finding) == (
        "warning: train: 'value' does not change in 120 rows, for example 0 in 120 rows (2024-01-13 12:00:00, …)"
    )


# Steps and features


@pytest.mark.parametrize(
    ("times", "step", "period", "text"),
    [
        (
            ["2024-01-01T00:00", "2024-01-01T00:15", "2024-01-01T00:30"],
            Step(microseconds=15 * MINUTE),
            96,
            "15 minutes",
        ),
        (["2024-01-01T00", "2024-01-01T01"], Step(microseconds=HOUR), 24, "1 hour"),
        (["2024-01-01", "2024-01-02", "2024-01-05"], Step(microseconds=DAY), 7, "1 day"),
        (["2024-01-01", "2024-01-08"], Step(microseconds=WEEK), 52, "1 week"),
        (["2024-01-01T00:00:00", "2024-01-01T00:00:01"], Step(microseconds=SECOND), 3600, "1 second"),
        (["2024-01-15", "2024-02-15", "2024-03-15"], Step(months=1), 12, "1 month"),
        (["2023-12-31", "2024-01-31", "2024-02-29"], Step(months=1, month_end=True), 12, "1 month"),
        (["2024-03-31", "2024-06-30", "2024-09-30"], Step(months=3, month_end=True), 4, "3 months"),
        (["2022-01-01", "2023-01-01", "2024-01-01"], Step(months=12), 1, "1 year"),
        (["2024-01-01T00", "2024-01-01T07"], Step(microseconds=7 * HOUR), 1, "7 hours"),
    ],
)
def test_the_step_is_found_from_the_times_and_has_a_season(
    times: list[str], step: Step, period: int, text: str
) -> None:
    found = find_step(np.array(times, "datetime64[us]"))
    assert (found, found.period, str(found)) == (step, period, text)
    first = np.datetime64(times[0], "us")
    counts = found.counts(np.array(times, "datetime64[us]"))
    assert set(found.after(first, int(counts[-1]))) >= set(np.array(times[1:], "datetime64[us]"))


def test_months_that_begin_on_another_day_are_no_whole_step() -> None:
    times = np.array(["2024-01-15", "2024-02-15", "2024-03-16"], "datetime64[us]")
    counts = Step(months=1).counts(times)
    assert counts[1] == 1
    assert counts[2] != round(counts[2])


def test_one_time_has_no_step() -> None:
    with pytest.raises(DataError, match="needs at least two times; got 1"):
        find_step(hours(1))


def test_features_of_time_are_on_the_unit_circle_and_repeat_with_their_cycle() -> None:
    times = hours(24 * 15)
    features = time_features(times)
    assert features.shape == (len(times), 8)
    np.testing.assert_allclose(features[:, ::2] ** 2 + features[:, 1::2] ** 2, 1)
    np.testing.assert_allclose(features[:-24, :2], features[24:, :2], atol=1e-12)
    np.testing.assert_allclose(features[: -24 * 7, 2:4], features[24 * 7 :, 2:4], atol=1e-12)
    assert time_features(times, []).shape == (len(times), 0)
    with pytest.raises(DataError, match="got 'moon'"):
        time_features(times, ["moon"])
    assert Step(microseconds=HOUR).features == ("hour_of_day", "day_of_week", "day_of_year")
    assert Step(microseconds=DAY).features == ("day_of_week", "day_of_year")
    assert (Step(months=1).features, Step(months=12).features) == (("month",), ())


# Parts


def test_parts_are_shares_counts_or_dates() -> None:
    table = table_of(ramp(100), ramp(50))
    shares = split_by_fractions(table, (0.7, 0.1, 0.2))
    assert shares.bounds == ((0, 70, 80, 100), (0, 35, 40, 50))
    assert shares.rows(1, "validation") == range(35, 40)
    assert split_by_counts(table, (20, 10, 5)).bounds == ((0, 20, 30, 35),) * 2
    by_date = split_by_dates(table, "2024-01-02", "2024-01-03")
    assert by_date.bounds == ((0, 24, 48, 100), (0, 24, 48, 50))
    assert split_by_dates(table, "2024-01-02", "2024-01-03", "2024-01-03 01:00").bounds[0] == (0, 24, 48, 49)
    folds = [split.bounds[0] for split in rolling_splits(table, 3, 10, 5)]
    assert folds == [(0, 65, 70, 80), (0, 75, 80, 90), (0, 85, 90, 100)]


def test_parts_that_make_no_sense_are_refused() -> None:
    table = table_of(ramp(50))
    with pytest.raises(DataError, match=r"together at most 1; got \[0.7, 0.3, 0.2\]"):
        split_by_fractions(table, (0.7, 0.3, 0.2))
    with pytest.raises(DataError, match=r"has 50 rows; \[40, 10, 10\] need 60"):
        split_by_counts(table, (40, 10, 10))
    with pytest.raises(DataError, match="Three numbers of rows"):
        split_by_counts(table, (0, 10, 10))
    with pytest.raises(DataError, match="in order of time"):
        split_by_dates(table, "2024-01-03", "2024-01-02")
    with pytest.raises(DataError, match="begins 2024-01-01: it has no rows before"):
        split_by_dates(table, "2023-01-03", "2024-01-02")
    with pytest.raises(DataError, match="begin at times in ISO 8601"):
        split_by_dates(table, "soon", "2024-01-02")
    with pytest.raises(DataError, match="6 folds of 10"):
        list(rolling_splits(table, 6, 10))


# Scales


def test_the_scale_of_a_series_comes_from_its_training_rows_only(tmp_path: Path) -> None:
    values = np.concatenate([np.array([[1.0], [np.nan], [3.0]]), np.full((3, 1), 1e9)])
    table = table_of(values, ramp(6))
    scale = StandardScale.fit(table, split_by_counts(table, (3, 1, 2)))
    np.testing.assert_allclose(scale.mean[:, 0], [2, 1])
    np.testing.assert_allclose(scale.deviation[:, 0], [1, np.sqrt(2 / 3)])
    scale.save(tmp_path / "scale.json")
    again = StandardScale.load(tmp_path / "scale.json")
    for name in ("mean", "deviation", "known_mean", "known_deviation"):
        np.testing.assert_array_equal(getattr(again, name), getattr(scale, name))
    assert again.of(["s1"]).mean.tolist() == scale.mean[1:].tolist()


def test_a_constant_keeps_its_deviation_and_an_empty_target_is_refused() -> None:
    assert StandardScale.fit(table_of(np.full((5, 1), 0.1))).deviation.tolist() == [[1.0]]
    with pytest.raises(DataError, match="Target 'f1' of series 's0' has no value in its 5 training rows"):
        StandardScale.fit(table_of(np.array([[1.0, np.nan]] * 5)))


def test_a_scale_refuses_other_files_and_unknown_series(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        StandardScale.load(tmp_path / "absent.json")
    with pytest.raises(DataError, match=r"a\.csv: not a file of StandardScale"):
        StandardScale.load(written(tmp_path, "{}"))
    with pytest.raises(DataError, match="The scale was not fitted on the series 'x'"):
        StandardScale.fit(table_of(ramp(5))).of(["x"])


def test_the_scale_of_a_window_is_of_its_observed_history() -> None:
    values = np.array([[[1.0], [3.0], [np.nan]], [[np.nan]] * 3])
    for scale, centre, deviation in [
        (WindowScale("last"), 3, 1),
        (WindowScale("mean"), 2, 1),
        (WindowScale("mean", divide=True), 2, 1),
        (WindowScale("none", divide=True, smallest=5.0), 0, 5),
    ]:
        found = scale.of(values)
        assert [part[0, 0] for part in found] == [centre, deviation]
        assert [part[1, 0] for part in found] == [0, 1]  # nothing was observed
    with pytest.raises(DataError, match="one of last, mean, none; got 'first'"):
        WindowScale("first")  # type: ignore[arg-type]


# Windows


def test_windows_are_history_and_horizon_side_by_side() -> None:
    windows = SeriesWindows(table_of(ramp(10, 2), ramp(8, 2, start=50.0)), history=4, horizon=2, stride=2)
    assert windows.places.tolist() == [[0, 4], [0, 6], [0, 8], [1, 4], [1, 6]]
    batch = windows.batch([1, 3])
    assert (batch.history.shape, batch.targets.shape, batch.names) == ((2, 4, 2), (2, 2, 2), ("s0", "s1"))
    assert batch.history[0, :, 0].tolist() == [2, 3, 4, 5]
    assert batch.targets[0, :, 1].tolist() == [106, 107]
    assert batch.targets[1, :, 0].tolist() == [54, 55]
    for mask in (batch.history_mask, batch.history_observed, batch.targets_observed):
        assert mask.all()
    assert batch.future_times[0].tolist() == hours(10)[6:8].tolist()
    np.testing.assert_allclose(batch.future_known[0], time_features(hours(10)[6:8], windows.features))
    assert batch.future_known.shape[2] == windows.num_known == 6
    assert sum(len(part) for part in windows.batches(2)) == len(windows)


def test_a_window_belongs_to_the_part_that_holds_its_whole_horizon() -> None:
    table = table_of(ramp(20))
    split = split_by_counts(table, (10, 5, 5))
    starts = {
        part: SeriesWindows(table, history=3, horizon=2, split=split, part=part).places[:, 1].tolist()
        for part in ("train", "validation", "test")
    }
    assert starts == {
        "train": [3, 4, 5, 6, 7, 8],
        "validation": [10, 11, 12, 13],  # their histories reach back into the training part
        "test": [15, 16, 17, 18],
    }


def test_a_short_history_stands_on_the_left_and_its_padding_is_masked() -> None:
    windows = SeriesWindows(table_of(ramp(6, start=7.0)), history=4, horizon=2, shortest_history=2)
    batch = windows.batch([0, 1, 2])
    assert batch.history_mask.tolist() == [[True, True, False, False], [True, True, True, False], [True] * 4]
    assert batch.history[0, :, 0].tolist() == [7, 8, 0, 0]
    assert np.isnat(batch.history_times[0]).tolist() == [False, False, True, True]
    assert (batch.history_known[0, 2:] == 0).all()


def test_missing_values_are_carried_forward_and_masked() -> None:
    values = ramp(8)
    values[[0, 2, 5], 0] = np.nan
    batch = SeriesWindows(table_of(values), history=4, horizon=2).batch([0])
    assert batch.history[0, :, 0].tolist() == [0, 1, 1, 3]
    assert batch.history_observed[0, :, 0].tolist() == [False, True, False, True]
    assert batch.targets_observed[0, :, 0].tolist() == [True, False]
    assert np.isfinite(batch.targets).all()


def test_windows_without_anything_observed_are_left_out() -> None:
    values = ramp(12)
    values[3:7] = np.nan
    windows = SeriesWindows(table_of(values), history=2, horizon=2)
    assert windows.places[:, 1].tolist() == [2, 8, 9, 10]


def test_a_window_of_the_future_has_known_inputs_but_no_truth() -> None:
    known = np.arange(8.0)[:, None]
    table = table_of(ramp(6), known=known)  # two rows of the future are in the file, the third is not
    batch = SeriesWindows(table, history=3, horizon=3, in_future=True).batch([0])
    assert batch.history[0, :, 0].tolist() == [3, 4, 5]
    assert batch.future_known[0, :, 0].tolist() == [6, 7, 0]
    assert not batch.targets_observed.any()
    assert batch.future_times[0].tolist() == hours(9)[6:].tolist()


def test_rows_that_are_held_back_are_the_truth_of_a_window_at_the_end() -> None:
    table = table_of(ramp(10), ramp(3))
    windows = SeriesWindows(table, history=3, horizon=2, in_future=True, hold_back=3)
    assert windows.places.tolist() == [[0, 7]]  # the short series has no history left
    batch = windows.batch([0])
    assert batch.history[0, :, 0].tolist() == [4, 5, 6]
    assert batch.targets[0, :, 0].tolist() == [7, 8]
    assert batch.targets_observed.all()


def test_scales_are_undone_exactly() -> None:
    rng = np.random.default_rng(0)
    table = table_of(rng.normal(50, 9, (40, 3)), rng.normal(-5, 0.1, (40, 3)))
    scale = StandardScale.fit(table)
    for window_scale in (None, WindowScale("last"), WindowScale("mean", divide=True)):
        windows = SeriesWindows(table, history=8, horizon=4, scale=scale, window_scale=window_scale)
        batch = windows.batch(range(len(windows)))
        plain = SeriesWindows(table, history=8, horizon=4).batch(range(len(windows)))
        np.testing.assert_allclose(batch.original(batch.targets), plain.targets, rtol=1e-12)
        np.testing.assert_allclose(batch.original(batch.targets[..., None])[..., 0], plain.targets, rtol=1e-12)
        standard = SeriesWindows(table, history=8, horizon=4, scale=scale).batch(range(len(windows)))
        np.testing.assert_allclose(batch.standardised(batch.history), standard.history, atol=1e-12)


def test_known_inputs_are_scaled_and_a_window_is_the_same_alone() -> None:
    known = np.linspace(5, 9, 30)[:, None]
    table = table_of(ramp(30), known=known)
    windows = SeriesWindows(
        table, history=5, horizon=2, scale=StandardScale.fit(table), window_scale=WindowScale("last")
    )
    np.testing.assert_allclose(windows.batch([3]).history_known[0, 0, 0], (known[3, 0] - known.mean()) / known.std())
    together, alone = windows.batch([7, 3, 9]), windows.batch([3])
    for name, tensor in alone.tensors().items():
        assert torch.equal(tensor[0], together.tensors()[name][1]), name


def test_tensors_are_float32_with_bool_masks() -> None:
    tensors = SeriesWindows(table_of(ramp(9)), history=3, horizon=2).batch([0, 1]).tensors()
    assert {name: tensor.dtype for name, tensor in tensors.items() if tensor.dtype != torch.float32} == {
        "history_observed": torch.bool,
        "history_mask": torch.bool,
        "targets_observed": torch.bool,
    }


def test_windows_that_do_not_fit_are_refused() -> None:
    table = table_of(ramp(5))
    with pytest.raises(DataError, match="No window of 4 steps of history and 2 of the horizon fits into the table"):
        SeriesWindows(table, history=4, horizon=2)
    with pytest.raises(DataError, match="horizon must be at least 1; got 0"):
        SeriesWindows(table, history=4, horizon=0)
    with pytest.raises(DataError, match="shortest_history=5 is more than history=4"):
        SeriesWindows(table, history=4, horizon=1, shortest_history=5)


def test_a_table_of_arrays_is_the_table_of_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, "t,a,b,holiday\n2024-01-01,1,2,0\n2024-01-02,3,,1\n2024-01-03,,,1\n")
    (read,) = read_series(path, known=["holiday"]).series
    table = SeriesTable.of({"": [[1, 2], [3, np.nan]]}, "2024-01-01", Step(microseconds=DAY), known=[[0], [1], [1]])
    (made,) = table.series
    for name in ("times", "targets", "known"):
        np.testing.assert_array_equal(getattr(made, name), getattr(read, name))
    assert (table.target_names, table.known_names) == (("target 0", "target 1"), ("known 0",))


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        ({}, {}, "same F; got none"),
        ({"a": [[1.0]], "b": [[1.0, 2.0]]}, {}, r"same F; got 'a' \(1, 1\), 'b' \(1, 2\)"),
        ({"a": [1.0]}, {"names": ["x", "y"]}, "There are 1 targets and 2 names"),
        ({"a": [1.0, 2.0]}, {"known": [[1.0]]}, "at least the 2 rows of 'a'"),
    ],
)
def test_arrays_of_other_shapes_are_refused(targets, options, message: str) -> None:
    with pytest.raises(DataError, match=message):
        SeriesTable.of(targets, "2024-01-01", Step(microseconds=DAY), **options)
