"""Checks of the data before training."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

from regard.data import Pairs
from regard.data.text import Field, ParallelText, Report, check, open_pairs
from regard.tasks.text_to_text.config import SideConfig

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
    assert "warning: 1 of train's sources is empty (train.tsv:31)" in lines
    assert "warning: 4 of train's targets are empty (train.tsv:32, train.tsv:33, train.tsv:34, …)" in lines


def test_no_target_at_all_and_no_pairs_are_errors() -> None:
    found = report([("a", ""), ("b", "")])
    assert found.has_errors
    assert str(found).startswith("error: all 2 targets of train are empty")
    found = report([], [])
    assert str(found) == "error: train has no pairs\nerror: dev has no pairs"


def test_repeated_pairs_are_warned_of_and_several_targets_are_told() -> None:
    found = report([("a", "x"), ("b", "y"), ("A ", "X"), ("a", "y"), ("b", "y")])
    assert warnings(found) == [
        "warning: 2 of train's pairs repeat an earlier pair (train.tsv:3 repeats line 1, train.tsv:5 repeats line 2)"
    ]
    assert "info: 1 of train's distinct pairs gives another target for a source that has one already" in str(found)


def test_symbols_that_training_lacks_are_told_a_side_with_counts_and_a_line() -> None:
    found = report([("a b", "x")], [("a q", "x"), ("q é q", "x w")])
    assert warnings(found) == [
        "warning: dev's sources have symbols that are not in the vocabulary of the training pairs: "
        "2 distinct, 4 in all ('q' 3×, first at dev.tsv:1, 'é' 1×, first at dev.tsv:2)",
        "warning: dev's targets have symbols that are not in the vocabulary of the training pairs: "
        "1 distinct, 1 in all ('w' 1×, first at dev.tsv:2)",
    ]


def test_rare_symbols_of_the_training_pairs_are_information() -> None:
    found = report([("a a r", "x x"), ("a", "x")], min_count=2)
    assert warnings(found) == []
    assert "info: train's sources have symbols that are not in the vocabulary" in str(found)


def test_units_that_do_not_split_the_texts_are_warned_of() -> None:
    dates = report([(f"the {n}", f"1999-{n:02}") for n in range(20)])
    (line,) = [line for line in warnings(dates) if "single symbol" in line]
    assert "every target of train is a single symbol, and 20 of 20 are distinct" in line
    assert "data.target.units=character" in line
    classes = report([(f"the {n}", "even" if n % 2 else "odd") for n in range(20)])
    assert not [line for line in warnings(classes) if "single symbol" in line]


def test_swapped_columns_are_an_error() -> None:
    words = [a + b + c for a in "abcd" for b in "abcd" for c in "abcd"]
    found = report([(" ".join(word), word) for word in words])
    assert found.has_errors
    assert str(found).startswith(
        "error: every target of train is a single symbol, and 64 of 64 are distinct: inputs and outputs seem to be "
        "swapped; choose their columns by data.source_field and data.target_field"
    )


def test_a_fault_of_one_of_two_files_names_that_file() -> None:
    Path("a.en").write_text("a b\n" * 3, encoding="utf-8")
    Path("a.de").write_text("x y\nx y\n\n", encoding="utf-8")
    Path("b.en").write_text("a b\n" * 3, encoding="utf-8")
    Path("b.de").write_text("x y\nx z\ny x\n", encoding="utf-8")
    field = [Field.build(SideConfig(units="whitespace", min_count=1), [text]) for text in ("a b", "x y")]
    files = [open_pairs(ParallelText(f"{name}.en", f"{name}.de")) for name in "ab"]
    found = str(check(*files, *field))
    assert "1 of train's targets is empty (a.de:3)" in found
    assert "'z' 1×, first at b.de:2" in found


def test_a_first_line_that_names_the_columns_is_no_pair_and_named() -> None:
    for names in (("Word", "pronunciation"), ("en", "de"), ("source_text", "IPA transcription")):
        found = report([names, ("a b", "x"), ("b", "y")])
        assert f"info: the first line of train names the columns ({', '.join(names)}) and is not a pair" in str(found)
        assert "train has 2 pairs" in str(found)
    for pairs in (
        [("word", "w ɜː d"), ("a", "b")],
        [("word", "word"), ("a", "b")],
        [("word", "form")],
        [("en", "form")],
    ):
        assert "names the columns" not in str(report(pairs))


@pytest.mark.parametrize("lines", ["id,english,german\n1,a dog,ein Hund\n2,a cat,eine Katze\n", "1,a,b\n2,c,d\n"])
def test_a_table_with_more_columns_than_a_pair_is_warned_of_unless_they_are_chosen(lines: str) -> None:
    Path("a.csv").write_text(lines, encoding="utf-8")
    field = Field.build(SideConfig(units="character", min_count=1), [lines])
    said = "warning: train has 3 columns, of which the first is the input and the second the output; if others are"
    assert said in str(check(open_pairs("a.csv"), None, field, field))
    for fields in ((1, 2), (2, 0)) + (() if lines[0] == "1" else (("english", "german"),)):
        chosen = open_pairs("a.csv", source_field=fields[0], target_field=fields[1])
        assert said not in str(check(chosen, None, field, field))


def test_a_csv_file_whose_first_line_is_no_heading_is_warned_of() -> None:
    Path("a.csv").write_text("engl,dt\na,b\nc,d\n", encoding="utf-8")
    field = Field.build(SideConfig(units="character", min_count=1), ["engldtabc"])
    (line,) = [line for line in warnings(check(open_pairs("a.csv"), None, field, field)) if "first line" in line]
    assert "is read as a pair ('engl', 'dt'); if it names the columns, choose them by their names" in line
    named = open_pairs("a.csv", source_field="dt", target_field="engl")
    assert [(pair.source, pair.target, pair.line) for pair in named] == [("b", "a", 2), ("d", "c", 3)]


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
    lines = [str(f) for f in found.findings if "targets equal" in f.text]
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


SYLLABLES = ["".join(chr(0xAC00 + 588 * a + 28 * b + (a * b) % 28) for b in range(12)) for a in range(19)]


def of_characters(train: Rows, dev: Rows | None = None, **options: Any) -> Report:
    field = SideConfig(**options)
    source = Field.build(field, [source for source, _ in train])
    target = Field.build(SideConfig(units="whitespace"), [target for _, target in train])
    return check(opened("train.tsv", train), None if dev is None else opened("dev.tsv", dev), source, target)


def test_composed_symbols_of_common_letters_are_warned_of_with_the_setting() -> None:
    rows = [(text, "a b") for text in SYLLABLES]
    (line,) = [line for line in warnings(of_characters(rows)) if "`letter`" in line]
    distinct = {c for text in SYLLABLES for c in text}
    components = {c for text in SYLLABLES for c in unicodedata.normalize("NFD", text)}
    times = sum(map(len, SYLLABLES))
    assert line.startswith(
        f"warning: {len(distinct)} composed symbols of train's sources, {times} of {times}, occur fewer than 10 times "
        f"each; units `letter` (data.source.units) split them into {len(components)} symbols, "
    )
    assert f"({SYLLABLES[0][0]!r} at train.tsv:1, " in line
    assert not [text for text in warnings(of_characters(rows, units="letter")) if "`letter`" in text]
    assert not [text for text in warnings(of_characters(rows, units="whitespace")) if "`letter`" in text]


def test_composed_symbols_that_are_few_or_rarely_met_are_not_warned_of() -> None:
    letters = [("áéíóúýàèìòùâêîôûäëïöüãõñç" * 12, "a")] * 2
    assert not [line for line in warnings(of_characters(letters)) if "`letter`" in line]  # composed, but common
    names = [("abcdefghij" * 2_000, "a"), (SYLLABLES[3] + SYLLABLES[4], "b")]
    assert not [line for line in warnings(of_characters(names)) if "`letter`" in line]  # rare, and a small share
    few = [(SYLLABLES[0], "a")]
    assert not [line for line in warnings(of_characters(few)) if "`letter`" in line]


def test_composed_symbols_of_character_columns_are_found_at_their_line() -> None:
    config = SideConfig(units=("separator", "character"), separator=";")
    rows = [f"V;PST\t{text}" for text in SYLLABLES]
    source = Field.build(config, rows, num_columns=2)
    target = Field.build(SideConfig(), ["ab"])
    Path("columns.tsv").write_text("".join(f"{row}\tab\n" for row in rows), encoding="utf-8")
    found = check(open_pairs("columns.tsv", source_field=(0, 1), target_field=2), None, source, target)
    (line,) = [str(finding) for finding in found.findings if "`letter`" in finding.text]
    assert f"'+{SYLLABLES[0][0]}' at columns.tsv:1" in line


def test_symbols_that_occur_once_are_counted_with_examples() -> None:
    found = report([("a b", "x"), ("a c", "y"), ("d a", "x")], [("q", "x")])
    lines = [str(finding) for finding in found.findings if "only once" in finding.text]
    assert lines == [
        "info: 3 of 4 symbols of train's sources occur only once "
        "('b' at train.tsv:1, 'c' at train.tsv:2, 'd' at train.tsv:3)",
        "info: 1 of 2 symbols of train's targets occurs only once ('y' at train.tsv:2)",
    ]
    rare = report([("a b", "x"), ("a c", "x")], min_count=2)  # these are unknown, which is told
    assert not [finding for finding in rare.findings if "only once" in finding.text]
    assert "2 distinct, 2 in all" in str(rare)


def test_the_blank_that_sentencepiece_puts_before_every_text_is_not_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sentencepiece")
    monkeypatch.chdir(tmp_path)
    texts = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in "ijkl"]
    Path("pieces.tsv").write_text("".join(f"{text}\tx\n" for text in texts))
    source = Field.build(SideConfig(units="sentencepiece", vocabulary_size=14), texts)
    assert source.split(texts[0])[0] == "▁"
    found = check(open_pairs("pieces.tsv"), None, source, Field.build(SideConfig(), ["x"]))
    assert "every source" not in str(found)


def test_what_every_source_begins_or_ends_with_is_warned_of() -> None:
    rows = [(f"< w {a} >", f"{a} .") for a, _ in CLEAN]
    found = report([*rows, ("", "x .")])
    assert [line for line in warnings(found) if "every" in line] == [
        f"warning: every source of train {verb}, which carries no information; attention often rests on such symbols. "
        "Remove them from the file if they mean nothing"
        for verb in ("begins with '<' 'w'", "ends with '>'")
    ]
    assert "info: every target of train ends with '.', which carries no information" in str(found).split("\n")
    assert "begins with" not in str(report([*rows, ("a >", "b")]))
    assert "every" not in str(report(rows[:5]))  # five texts are alike by chance


def test_control_characters_are_shown_as_escapes() -> None:
    rows = [("\x1b[2J\x07 a", "x"), ("a", "x"), ("a \u202e", "y")]
    file = "tr\x1bain.tsv"
    Path(file).write_text("".join(f"{source}\t{target}\n" for source, target in [*rows, ("", "z")]), encoding="utf-8")
    field = Field.build(SideConfig(units="whitespace"), ["a", "x y"])
    text = str(check(open_pairs(file), None, field, field))
    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert "tr\\x1bain.tsv:4" in text
    assert "\\u202e" in text


def test_a_long_symbol_is_cut(tmp_path):
    (tmp_path / "train.tsv").write_text("a b\tx\nc d\ty\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text(f"{'q' * 9000} b\tx\n", encoding="utf-8")
    side = SideConfig(units="whitespace")
    train, dev = open_pairs(tmp_path / "train.tsv"), open_pairs(tmp_path / "dev.tsv")
    source, target = (Field.build(side, (getattr(p, name) for p in train), name=name) for name in ("source", "target"))
    assert len(str(check(train, dev, source, target))) < 2000
