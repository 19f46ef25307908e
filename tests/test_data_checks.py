"""What is said about data before training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.config.schema import SideConfig
from regard.data import Field, Pairs, Report, check, open_pairs

Rows = list[tuple[str, str]]
CLEAN = [(f"{a} {b}", f"{b.upper()} {a.upper()}") for b in "abcdef" for a in "abcdef" if a != b]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def opened(name: str, rows: Rows) -> Pairs:
    Path(name).write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return open_pairs(name)


def report(train: Rows, dev: Rows | None = None, *, min_count: int = 1, **options: Any) -> Report:
    config = SideConfig(units="whitespace", case="lower", min_count=min_count)
    source = Field.build(config, [source for source, _ in train] or ["a"])
    target = Field.build(config, [target for _, target in train if target] or ["a"])
    held_out = None if dev is None else opened("dev.tsv", dev)
    return check(opened("train.tsv", train), held_out, source, target, **options)


def warnings(found: Report) -> list[str]:
    return [str(finding) for finding in found.findings if finding.severity != "info"]


def test_clean_data_get_their_sizes_and_nothing_else() -> None:
    found = report(CLEAN[:24], CLEAN[24:])
    assert str(found).split("\n") == [
        "info: train has 24 pairs; source 2 to 2 symbols, median 2; target 2 to 2 symbols, median 2",
        "info: dev has 6 pairs; source 2 to 2 symbols, median 2; target 2 to 2 symbols, median 2",
    ]
    assert not found.has_errors


def test_empty_sides_are_counted_with_their_first_places() -> None:
    found = report([*CLEAN, ("", "x"), ("a", ""), ("b", ""), ("c", " "), ("d", "")])
    lines = warnings(found)
    assert "warning: 1 of train's sources are empty (train.tsv:31)" in lines
    assert "warning: 4 of train's targets are empty (train.tsv:32, train.tsv:33, train.tsv:34, …)" in lines


def test_no_target_at_all_and_no_pairs_are_errors() -> None:
    found = report([("a", ""), ("b", "")])
    assert found.has_errors
    assert str(found).startswith("error: train has no target at all: all 2 are empty")
    found = report([], [])
    assert str(found) == "error: train has no pairs\nerror: dev has no pairs"


def test_pairs_and_sources_shared_by_both_splits_are_told_with_both_places() -> None:
    found = report([("a b", "x"), ("c d", "y"), ("e", "z")], [("E", "Z"), ("c d", "x"), ("a", "x")])
    assert warnings(found) == [
        "warning: 1 of dev's pairs are training pairs too (dev.tsv:1 is train.tsv:3)",
        "warning: 1 of dev's pairs have a source of the training pairs, with another target "
        "(dev.tsv:2 and train.tsv:2)",
    ]


def test_repeated_pairs_are_warned_of_and_several_targets_are_told() -> None:
    found = report([("a", "x"), ("b", "y"), ("A ", "X"), ("a", "y"), ("b", "y")])
    assert warnings(found) == [
        "warning: 2 of train's pairs repeat an earlier one (train.tsv:3 repeats line 1, train.tsv:5 repeats line 2)"
    ]
    assert "info: 1 of train's distinct pairs give a source a further target" in str(found)


def test_symbols_that_training_lacks_are_told_a_side_with_counts_and_a_line() -> None:
    found = report([("a b", "x")], [("a q", "x"), ("q é q", "x w")])
    assert warnings(found) == [
        "warning: dev's sources have 2 symbols, 4 times, that the vocabulary of the training pairs lacks "
        "('q' 3 times, as at dev.tsv:1, 'é' 1 times, as at dev.tsv:2)",
        "warning: dev's targets have 1 symbols, 1 times, that the vocabulary of the training pairs lacks "
        "('w' 1 times, as at dev.tsv:2)",
    ]


def test_rare_symbols_of_the_training_pairs_are_information() -> None:
    found = report([("a a r", "x x"), ("a", "x")], min_count=2)
    assert warnings(found) == []
    assert "info: train's sources have 1 symbols, 1 times, that the vocabulary" in str(found)


def test_extreme_ratios_are_those_far_from_the_usual_one() -> None:
    usual = [("a b c d", "x " * 12)] * 5
    assert not [line for line in warnings(report(usual)) if "ratio" in line]
    odd = [*usual, ("a " * 50, "x"), ("a", "x " * 200), ("a", "x")]
    line = next(line for line in warnings(report(odd)) if "ratio" in line)
    assert line == (
        "warning: 2 of train's pairs have an extreme ratio of lengths (train.tsv:6 50 to 1, train.tsv:7 1 to 200)"
    )


def test_pairs_longer_than_the_maximum_are_told_and_an_error_when_none_is_left() -> None:
    rows = [("a b c", "x"), ("a", "x y"), ("b", "x y z w")]
    found = report(rows, max_length=2)
    assert warnings(found) == [
        "warning: 2 of train's pairs are longer than max_length=2 and left out (train.tsv:1 has 3, train.tsv:3 has 4)"
    ]
    assert report(rows, max_length=1).has_errors
    assert warnings(report(rows, max_length=4)) == []


@pytest.mark.parametrize(("autoencode", "count"), [(False, 1), (True, 0)])
def test_targets_that_equal_their_sources_are_information_unless_meant(autoencode: bool, count: int) -> None:
    found = report([("a", "A"), ("b", "c"), ("c", "a")], autoencode=autoencode)
    lines = [str(f) for f in found.findings if "equal their sources" in f.text]
    assert len(lines) == count
    assert warnings(found) == []


def test_the_severest_comes_first() -> None:
    found = report([("a", ""), ("a", "")], [("a", "")])
    severities = [finding.severity for finding in found.findings]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert set(severities) == {"error", "warning", "info"}


def test_blank_lines_are_told() -> None:
    Path("a.tsv").write_text("a\tb\n\n\nc\td\n")
    pairs = open_pairs("a.tsv")
    field = Field.build(SideConfig(), ["abcd"])
    assert "info: train has 2 blank lines, which are skipped" in str(check(pairs, None, field, field))
