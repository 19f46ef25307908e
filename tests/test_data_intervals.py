"""Tables of labels, and long sentences joined from short ones."""

from __future__ import annotations

import pytest

from regard.data.speech import Intervals, join_texts, join_units, read_intervals
from regard.errors import DataError

PHONES = "id\tstart\tend\tphone\na\t0.000\t0.250\tpau\na\t0.250\t0.375\th\nb c\t0\t1e-1\tö\n"
LETTERS = "id\tindex\tstart\tend\tletter\na\t0\t0.1\t0.2\tx\na\t1\t0.2\t0.2\t \na\t2\t0.2\t0.4\t'\n"


def written(folder, text):
    path = folder / "labels.tsv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_phones_and_letters_are_read_with_their_times(tmp_path):
    sentences = read_intervals(written(tmp_path, PHONES))
    assert list(sentences) == ["a", "b c"]
    assert sentences["a"].units == ("pau", "h")
    assert sentences["a"].starts.tolist() == [0, 0.25]
    assert sentences["a"].ends.tolist() == [0.25, 0.375]
    assert sentences["a"].middles.tolist() == [0.125, 0.3125]
    assert sentences["b c"].durations.tolist() == [0.1]


def test_a_blank_is_a_letter_and_an_empty_interval_is_not_heard(tmp_path):
    letters = read_intervals(written(tmp_path, LETTERS))["a"]
    assert letters.units == ("x", " ", "'")
    assert letters.is_heard.tolist() == [True, False, True]


def test_columns_may_stand_in_another_order_and_lines_may_end_as_on_windows(tmp_path):
    path = written(tmp_path, "phone\tend\tid\tstart\r\nh\t2\ta\t1\r\n")
    assert read_intervals(path)["a"].ends.tolist() == [2]


def test_times_rounded_to_milliseconds_may_overlap_by_one(tmp_path):
    path = written(tmp_path, "id\tstart\tend\tphone\na\t0\t0.251\th\na\t0.250\t0.3\ti\n")
    assert len(read_intervals(path)["a"]) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "labels.tsv:1: expected a header"),
        ("id\tstart\tstop\tphone\n", ":1: .*end is missing"),
        ("id\tstart\tend\n", ":1: expected one column phone or letter"),
        ("id\tstart\tend\tphone\tletter\n", ":1: expected one column phone or letter"),
        ("id\tstart\tend\tphone\na\t0\t1\n", ":2: 3 columns"),
        ("id\tstart\tend\tphone\na\tnull\t1\tx\n", ":2: start: expected seconds.*'null'"),
        ("id\tstart\tend\tphone\na\t0\tnan\tx\n", ":2: end: expected seconds.*'nan'"),
        ("id\tstart\tend\tphone\na\t0\tinf\tx\n", ":2: end: expected seconds.*'inf'"),
        ("id\tstart\tend\tphone\na\t-1\t0\tx\n", ":2: start: expected seconds.*'-1'"),
        ("id\tstart\tend\tphone\na\t2\t1\tx\n", ":2: end: 1 is before the start, 2"),
        ("id\tstart\tend\tphone\na\t0\t1\tx\na\t0.5\t2\ty\n", ":3: start: 0.5 is before the end of the row above, 1"),
        ("id\tstart\tend\tphone\na\t0\t1\t\n", ":2: phone: the field is empty"),
        ("id\tstart\tend\tphone\na\t0\t1\tx\nb\t0\t1\tx\na\t1\t2\tx\n", ":4: id: 'a' has other rows above"),
        ("id\tindex\tstart\tend\tletter\na\t0\t0\t1\tx\na\t2\t1\t2\ty\n", ":3: index: expected 1, .*'2'"),
    ],
)
def test_what_is_wrong_is_named_with_line_column_and_value(tmp_path, text, said):
    with pytest.raises(DataError, match=said):
        read_intervals(written(tmp_path, text))


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_intervals(tmp_path / "phones.tsv")


def test_labels_belong_to_units_that_begin_with_them():
    labels = Intervals.of([(0.1, 0.2, "a"), (0.2, 0.5, "b")])
    more = labels.for_units(["a", "b", "</s>"])
    assert more.units == ("a", "b", "</s>")
    assert more.is_heard.tolist() == [True, True, False]
    with pytest.raises(DataError, match=r"s\.tsv, 7: unit 1 of 2 labels is 'b'; the model reads 'B'"):
        labels.for_units(["a", "B"], place="s.tsv, 7")
    with pytest.raises(DataError, match="unit 1 of 2 labels is 'b'; the model reads no further unit"):
        labels.for_units(["a"])


def test_sentences_without_rows_have_no_units():
    assert len(Intervals.of([])) == 0
    assert Intervals.of([]).for_units(["</s>"]).ends.tolist() == [0]


def test_texts_are_joined_without_their_ends():
    texts = [f"Sentence {i}{mark}" for i, mark in enumerate(".!?.…. ")]
    assert join_texts(texts, 3) == ["Sentence 0, Sentence 1, Sentence 2.", "Sentence 3, Sentence 4, Sentence 5."]
    assert join_texts(texts, 7, separator=" - ", end="!")[0].endswith("Sentence 5 - Sentence 6!")


def test_phones_are_joined_with_one_pause_between():
    sentences = [["pau", "a", "pau"], ["pau", "b", "pau"], ["c"], ["d", "pau"]]
    assert join_units(sentences, 4) == [["pau", "a", "pau", "b", "pau", "c", "pau", "d", "pau"]]
    assert join_units(sentences, 2, pause="_") == [
        ["pau", "a", "pau", "_", "pau", "b", "pau"],
        ["c", "_", "d", "pau"],
    ]


@pytest.mark.parametrize("count", [0, 3])
def test_joining_needs_enough_sentences(count):
    with pytest.raises(DataError, match=f"Joining {count} sentences needs .*; got 2"):
        join_texts(["a.", "b."], count)
