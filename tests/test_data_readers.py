"""Pairs from TSV, JSONL and parallel files."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import multiprocessing
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data import Lines, Pairs, text_file
from regard.data import lines as lines_module
from regard.data.csv_fields import csv_line, csv_rows
from regard.data.text import ParallelText, open_pairs
from regard.errors import ConfigError, DataError


def written(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


def texts(pairs: Pairs) -> list[tuple[str, str, int]]:
    return [(pair.source, pair.target, pair.line) for pair in pairs]


@pytest.mark.parametrize(
    "data",
    [
        b"a\tb\nc\td\n",
        b"a\tb\nc\td",
        b"\xef\xbb\xbfa\tb\nc\td\n",
        b"a\tb\r\nc\td\r\n",
        b"\xef\xbb\xbfa\tb\r\nc\td",
    ],
)
def test_line_ends_a_byte_order_mark_and_a_missing_last_newline_change_nothing(tmp_path: Path, data: bytes) -> None:
    assert texts(open_pairs(written(tmp_path, "a.tsv", data))) == [("a", "b", 1), ("c", "d", 2)]


def test_blank_lines_are_skipped_and_counted_and_numbers_stay_those_of_the_file(tmp_path: Path) -> None:
    pairs = open_pairs(written(tmp_path, "a.tsv", "\n a\tb\n\r\n  \nc\td\n\t\n\n"))
    assert texts(pairs) == [(" a", "b", 2), ("c", "d", 5), ("", "", 6)]
    assert pairs.num_blank == 4


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    pairs = open_pairs(written(tmp_path, "a.tsv", "a\u2028b\x0c\x85c\td\re\n"))
    assert texts(pairs) == [("a\u2028b\x0c\x85c", "d\re", 1)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=12), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 7),
)
def test_any_text_comes_back_line_by_line_whatever_the_chunks_it_is_scanned_in(
    tmp_path: Path, expected: list[str], end: str, chunk: int
) -> None:
    path = written(tmp_path, "a.txt", "".join(line + end for line in expected))
    if path.read_bytes().startswith(tuple(text_file.FOREIGN)) or (expected[:1] and expected[0].startswith("\ufeff")):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "CHUNK_BYTES", chunk)
        lines, filled = Lines(path), Lines(path, skip_blank=True)
    assert list(lines) == expected
    kept = [(i, line) for i, line in enumerate(expected, 1) if any(c > " " or c == "\t" for c in line)]
    assert [(filled.number(i), line) for i, line in enumerate(filled)] == kept
    assert filled.num_skipped == len(expected) - len(kept)


def test_an_empty_file_has_no_pairs(tmp_path: Path) -> None:
    for data in (b"", b"\xef\xbb\xbf", b"\n\n"):
        assert len(open_pairs(written(tmp_path, "a.tsv", data))) == 0


def test_columns_are_chosen_by_number(tmp_path: Path) -> None:
    path = written(tmp_path, "german-train", "gehen\tging\tV;PST\n")
    assert texts(open_pairs(path, source_field=2, target_field=0)) == [("V;PST", "gehen", 1)]


def test_autoencoding_needs_one_column_and_ignores_the_target(tmp_path: Path) -> None:
    assert texts(open_pairs(written(tmp_path, "a.txt", "a b\nc\n"), autoencode=True)) == [
        ("a b", "a b", 1),
        ("c", "c", 2),
    ]
    path = written(tmp_path, "b.tsv", "x\ty\n")
    assert texts(open_pairs(path, source_field=1, target_field=7, autoencode=True)) == [("y", "y", 1)]
    both = ParallelText(written(tmp_path, "a.src", "a\n"), tmp_path / "missing")
    assert texts(open_pairs(both, autoencode=True)) == [("a", "a", 1)]
    single = open_pairs(written(tmp_path, "c.txt", "a\tb\n\nc\n"), format="parallel", autoencode=True)
    assert texts(single) == [("a\tb", "a\tb", 1), ("", "", 2), ("c", "c", 3)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("a\tb\nhello world\n", r"a.tsv:2: 1 tab-separated column in 'hello world'.*need at least 2.*autoencode"),
        ("a\tb\n\nc\td\te\n", r"a.tsv:3: 3 tab-separated columns in 'c\\td\\te'; the first line has 2"),
    ],
)
def test_a_wrong_number_of_columns_names_file_line_and_what_was_found(tmp_path: Path, data: str, words: str) -> None:
    with pytest.raises(DataError, match="(?s)" + words):
        texts(open_pairs(written(tmp_path, "a.tsv", data)))


def test_bytes_that_are_not_utf8_are_named_by_file_line_and_position(tmp_path: Path) -> None:
    pairs = open_pairs(written(tmp_path, "a.tsv", b"a\tb\ncaf\xe9\td\n"))
    assert pairs[0].source == "a"
    with pytest.raises(DataError, match=r"a.tsv:2: not UTF-8: byte 0xE9 at byte 4 of the line \(8 of the file\)"):
        pairs[1]


def zipped(**files: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.tsv.gz", gzip.compress),
        ("a.TSV.bz2", bz2.compress),
        ("a.tsv.xz", lzma.compress),
        ("a.tsv", gzip.compress),
        ("a.tsv.zip", lambda data: zipped(**{"folder/": "", "folder/a.tsv": data.decode(), "__MACOSX/a.tsv": ""})),
    ],
)
def test_compressed_files_are_read_as_what_they_hold(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    pairs = open_pairs(written(tmp_path, name, pack("\ufeffa\tb\n\nc\td\n".encode())))
    assert texts(pickle.loads(pickle.dumps(pairs))) == texts(pairs) == [("a", "b", 1), ("c", "d", 3)]
    nested = written(tmp_path, "a.jsonl.gz", gzip.compress(b'{"x": "a", "y": "b"}\n'))
    assert texts(open_pairs(nested, source_field="x", target_field="y")) == [("a", "b", 1)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(b"a\tb\n" * 1000)[:-9], "a.tsv: cannot be unpacked"),
        (b"\x1f\x8b\x08", "a.tsv: cannot be unpacked"),
        (bz2.compress(b"a\tb\n" * 1000)[:-9], "a.tsv: cannot be unpacked"),
        (lzma.compress(b"a\tb\n")[:-9], "a.tsv: cannot be unpacked"),
        (zipped(a="1\t2")[:-9], "a.tsv: cannot be unpacked"),
        (zipped(a="1\t2", b="3\t4"), r"a.tsv is an archive of 2 files \(a, b\); unpack it"),
        (
            zipped(**{"[Content_Types].xml": "", "xl/workbook.xml": ""}),
            "a.tsv is a spreadsheet.*; save its table as CSV",
        ),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "a.tsv is a document of Microsoft Office; save its table as CSV"),
        (b"PAR1\x15\x04", "a.tsv is Parquet; convert it"),
        (b"\xff\xfea\0", "UTF-16"),
        (b"\xfe\xff\0a", "UTF-16"),
    ],
    ids=range(11),
)
def test_what_is_no_text_is_refused_with_what_to_do(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        open_pairs(written(tmp_path, "a.tsv", data))


def test_text_that_is_not_utf8_is_shown_in_other_encodings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)The word reads .*'дом' in cp1251.*iconv -f ENCODING -t utf-8"):
        open_pairs(written(tmp_path, "a.tsv", "дом\tпривет мир\n".encode("cp1251")))
    with pytest.raises(DataError, match="'Grüße' in cp1252"):
        open_pairs(written(tmp_path, "a.tsv", "Grüße\tcafé\n".encode("cp1252")))


@pytest.mark.parametrize("text", ["BZh\tb\n", "Rar!\tb\n", "PAR1\tb\n", "PK\tb\n", "%PDF\tb\n", "SQLite\tb\n"])
def test_text_that_begins_like_another_kind_of_file_is_text(tmp_path: Path, text: str) -> None:
    assert [(pair.source, pair.target) for pair in open_pairs(written(tmp_path, "a.tsv", text))] == [
        tuple(text.strip().split("\t"))
    ]


def test_a_missing_file_is_an_error_that_names_a_near_one(tmp_path: Path) -> None:
    written(tmp_path, "train.tsv", "")
    with pytest.raises(DataError, match=r"trian.tsv: no such file. Did you mean .*train.tsv\?"):
        open_pairs(tmp_path / "trian.tsv")
    with pytest.raises(DataError, match=r"the folder .*nowhere does not exist"):
        open_pairs(tmp_path / "nowhere" / "train.tsv")
    with pytest.raises(DataError, match="cannot be read"):
        open_pairs(tmp_path)


def test_parallel_files_pair_their_lines_and_empty_lines_are_empty_texts(tmp_path: Path) -> None:
    files = ParallelText(written(tmp_path, "a.de", "eins\n\n\tdrei\n"), written(tmp_path, "a.en", "one\ntwo\nthree"))
    assert texts(open_pairs(files)) == [("eins", "one", 1), ("", "two", 2), ("\tdrei", "three", 3)]


def test_parallel_files_of_different_length_are_refused_with_both_counts(tmp_path: Path) -> None:
    files = ParallelText(written(tmp_path, "a.de", "eins\nzwei\n"), written(tmp_path, "a.en", "one\n"))
    with pytest.raises(DataError, match=r"(?s)a\.de: 2 lines.*a\.en: 1 lines"):
        open_pairs(files)


def test_json_lines_are_read_by_name_or_by_number(tmp_path: Path) -> None:
    objects = written(
        tmp_path, "a.jsonl", '\ufeff{"de": "ein\\ns\\t", "en": "one", "n": 1}\n\n{"en": "two", "de": "zwei"}\n'
    )
    assert texts(open_pairs(objects, source_field="de", target_field="en")) == [
        ("ein\ns\t", "one", 1),
        ("zwei", "two", 3),
    ]
    assert texts(open_pairs(written(tmp_path, "b.ndjson", '["a", "b"]\n'))) == [("a", "b", 1)]


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ('{"a": "b"}\n{"a": \n', {"source_field": "a", "target_field": "a"}, r"a.jsonl:2: not JSON at column 7"),
        (
            '{"source": "b", "target": "c"}\n',
            {"source_field": "sorce", "target_field": "target"},
            "did you mean 'source'",
        ),
        ('{"x": "b"}\n', {"source_field": "x", "target_field": "output"}, r"a.jsonl:1: no field 'output'.*it has 'x'"),
        ('{"x": "b"}\n', {}, "--source-field\\) is 0, but the line holds an object with 'x'"),
        ('["x"]\n', {}, r"no entry 1 \(data.target_field\), counted from 0; the list has 1"),
        ('["x", "y"]\n', {"source_field": "x"}, "--source-field\\) is 'x', but the line holds list"),
        ('"x"\n', {}, "the line holds str"),
        ('{"x": 3}\n', {"source_field": "x"}, r"field 'x' \(data.source_field\) must be text; got '3'"),
        ('{"x": null}\n', {"source_field": "x"}, "must be text; got 'null'"),
        ('{"x": "\\ud800"}\n', {"source_field": "x"}, "half a surrogate pair"),
        ("[" * 100_000 + "\n", {}, "a.jsonl:1: not JSON"),
        ("1" * 5_000 + "\n", {}, "a.jsonl:1: not JSON"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path: Path, data: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        texts(open_pairs(written(tmp_path, "a.jsonl", data), **options))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a.json", {}, "Convert it to JSONL"),
        ("a.tsv", {"format": "parallel"}, "needs two files"),
        ("a.tsv", {"target_field": -1}, "counted from 0, for example data.target_field=1; got -1"),
        ("a.jsonl", {"target_field": -1}, "got -1"),
    ],
)
def test_options_that_contradict_the_file_are_refused(
    tmp_path: Path, name: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        open_pairs(written(tmp_path, name, "a\tb\n"), **options)


def test_two_files_cannot_be_tsv(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read as tsv"):
        open_pairs(ParallelText(tmp_path / "a", tmp_path / "b"), format="tsv")


def test_a_stated_format_beats_the_suffix(tmp_path: Path) -> None:
    assert texts(open_pairs(written(tmp_path, "a.csv", "a\tb\n"), format="tsv")) == [("a", "b", 1)]
    assert texts(open_pairs(written(tmp_path, "a.txt", '["a","b"]\n'), format="jsonl")) == [("a", "b", 1)]


def test_pairs_are_a_sequence_with_slices_and_negative_indices(tmp_path: Path) -> None:
    pairs = open_pairs(written(tmp_path, "a.tsv", "".join(f"{i}\t{i}\n" for i in range(10))))
    assert pairs[-1].source == "9"
    assert [p.line for p in pairs[2:8:3]] == [3, 6]
    assert [p.line for p in pairs[::-1][1:3]] == [9, 8]
    assert pairs[3].place == f"{tmp_path / 'a.tsv'}:4"
    for index in (10, -11):
        with pytest.raises(IndexError, match="10 pairs; got the index"):
            pairs[index]


def source_of(arguments: tuple[Pairs, int]) -> str:
    pairs, index = arguments
    return pairs[index].source


def test_pairs_can_be_pickled_and_read_by_threads_and_processes(tmp_path: Path) -> None:
    pairs = open_pairs(written(tmp_path, "a.tsv", "".join(f"{'x' * (i % 50)}{i}\t\n" for i in range(2_000))))
    expected = [pair.source for pair in pairs]
    assert [pair.source for pair in pickle.loads(pickle.dumps(pairs))] == expected
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(source_of, [(pairs, i) for i in range(len(pairs))])) == expected
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as processes:
            assert processes.map(source_of, [(pairs, i) for i in range(0, 2_000, 100)]) == expected[::100]


def test_a_file_that_changed_is_an_error_and_not_another_text(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", "a\tb\nc\td\n")
    pairs = open_pairs(path)
    stored = pickle.dumps(pairs)
    path.write_bytes(b"a\tb\n")
    with pytest.raises(DataError, match=r"changed since it was opened: 8 bytes then, 4 now"):
        pickle.loads(stored)
    with pytest.raises(DataError, match="4 bytes are missing"):
        pairs[1]
    for changed in (b"ab\tc\nd\te\n", b"\nab\tc\td"):
        path.write_bytes(changed)
        with pytest.raises(DataError, match="line 1 ends at another position"):
            pairs[0]


def test_memory_holds_offsets_alone(tmp_path: Path) -> None:
    path = tmp_path / "big.tsv"
    with path.open("wb") as file:
        for _ in range(64):
            file.write((b"s" * 4_000 + b"\t" + b"t" * 4_190 + b"\n") * 128)
    tracemalloc.start()
    pairs = open_pairs(path)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size == 64 << 20
    assert held < 1 << 20
    assert peak < 8 << 20
    assert len(pairs) == 8_192
    assert pairs[8_191].target == "t" * 4_190


def test_json_objects_may_hold_other_things_than_texts_elsewhere(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", json.dumps({"a": "x", "b": "y", "c": [1, None]}))
    assert texts(open_pairs(path, source_field="a", target_field="b")) == [("x", "y", 1)]


def test_fields_within_fields_of_json_are_named_by_dots(tmp_path: Path) -> None:
    line = json.dumps({"translation": {"en": "a", "de": ["b"]}, "a.b": "c"})
    path = written(tmp_path, "a.jsonl", line + "\n")
    assert texts(open_pairs(path, source_field="translation.en", target_field="translation.de.0")) == [("a", "b", 1)]
    assert texts(open_pairs(path, source_field="translation.en", target_field="a.b")) == [("a", "c", 1)]
    with pytest.raises(DataError, match=r"a.jsonl:1: no field 'translation.fr' \(data.target_field\)"):
        texts(open_pairs(path, source_field="translation.en", target_field="translation.fr"))


CSV = 'word,note,phones\n"a, b",x,"A ""1"" B"\n\nc,"two\nlines",D\n'


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (CSV, {"target_field": 2}),
        (CSV, {"source_field": "word", "target_field": "phones"}),
        (CSV.removeprefix("word,note,phones\n"), {"target_field": 2}),
        (
            "SEP=; \n"
            + CSV.replace(",x,", ";x;").replace("d,note,p", "d;note;p").replace("c,", "c;").replace(",D", ";D"),
            {"target_field": 2},
        ),
        (CSV.replace("\n", "\r\n"), {"target_field": 2}),
    ],
)
def test_csv_is_read_with_quotes_delimiters_and_headings(tmp_path: Path, data: str, fields: dict[str, Any]) -> None:
    pairs = open_pairs(written(tmp_path, "a.csv", data), **fields)
    first = 1 + ("word" in data) + data.startswith("SEP")
    assert texts(pairs) == [("a, b", 'A "1" B', first), ("c", "D", first + 2)]
    assert [pair.source for pair in pickle.loads(pickle.dumps(pairs))] == ["a, b", "c"]
    assert pairs.num_blank == 1


def test_a_written_row_of_csv_is_read_as_it_was() -> None:
    values = ["a\rb", "c\nd", 'e"f', "g;h", ""]
    lines = io.StringIO(csv_line(values, ";"), newline="")
    assert list(csv_rows(lines, ";", "a.csv")) == [(1, values)]


def test_tables_have_named_columns_in_tsv_too(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", "no\tlemma\ttags\tform\n1\tgo\tV\twent\n")
    assert texts(open_pairs(path, source_field=["lemma", "tags"], target_field="form")) == [("go\tV", "went", 2)]
    with pytest.raises(DataError, match=r"a.tsv: no column 'lema' in the first line; did you mean 'lemma'\?"):
        open_pairs(path, source_field="lema", target_field="form")


def test_texts_of_a_line_may_be_separated_by_three_bars(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "das Haus ||| the house\nja ||| yes\n")
    assert texts(open_pairs(path)) == [("das Haus", "the house", 1), ("ja", "yes", 2)]
    path.write_text("das Haus ||| the house\nja | yes\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a.txt:2: 1 '\|\|\|'-separated column in 'ja \| yes'"):
        texts(open_pairs(path))


def test_a_quotation_mark_that_is_not_closed_is_named_by_its_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.csv:2: not CSV: a quotation mark is not closed"):
        open_pairs(written(tmp_path, "a.csv", 'word,phones\n"a,b\nc,d\n'))
