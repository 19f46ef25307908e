"""Which symbols are parts of which word, files of links, and the alignment error rate."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text import Field, Links, SentencePieceUnits, alignment_errors, parse_links, read_links
from regard.data.text.normalisation import Normalisation
from regard.data.text.vocabulary import Vocabulary
from regard.errors import DataError, UnsupportedError
from regard.tasks.text_to_text.config import SideConfig

TEXTS = ["the cat sat on a mat", "Don't say (3.14), say it!", "größe  und\u00a0maß", "a"]
SETTINGS = {
    "character": {"units": "character"},
    "word": {"units": "word"},
    "whitespace": {"units": "whitespace"},
    "byte": {"units": "byte"},
    "sentencepiece": {"units": "sentencepiece", "vocabulary_size": 60},
}


def field(**options: object) -> Field:
    return Field.build(SideConfig(**options), TEXTS * 5)


@pytest.mark.parametrize("units", SETTINGS)
@pytest.mark.parametrize("text", [*TEXTS, " the  mat ", "unbekannt 日本 x"])
def test_words_are_what_stands_between_blanks_whatever_the_units(units: str, text: str) -> None:
    side = field(**SETTINGS[units])
    tokens = side.split(text)
    words = side.words(tokens, text)
    assert list(words.texts) == text.split()
    assert len(words.index) == len(tokens)
    assert set(words.index.tolist()) - {-1} == set(range(len(words)))
    assert words.index[words.index >= 0].tolist() == sorted(words.index[words.index >= 0].tolist())
    for number, word in enumerate(words.texts):
        own = [token for token, n in zip(tokens, words.index, strict=True) if n == number]
        assert side.units.join(own).strip() == word


@pytest.mark.parametrize("units", ["character", "byte"])
def test_blanks_belong_to_no_word(units: str) -> None:
    side = field(units=units)
    assert side.words(side.split("ab  c")).index.tolist() == [0, 0, -1, -1, 1]


def test_marks_are_words_of_their_own_unless_a_text_says_where_they_stand() -> None:
    side = field(units="word")
    tokens = side.split("(it)!")
    assert side.words(tokens).texts == ("(", "it", ")", "!")
    assert side.words(tokens, "(it)!").texts == ("(it)!",)


def test_a_piece_that_is_only_a_blank_belongs_to_the_word_after_it() -> None:
    units = field(**SETTINGS["sentencepiece"]).units
    assert isinstance(units, SentencePieceUnits)
    assert units.words(["▁", "ca", "t", "▁", "▁s", "at", "▁"]) == [0, 0, 0, 1, 1, 1, -1]
    assert units.words(["x", "▁"]) == [0, -1]
    assert units.words(["▁c", "a\u00a0b", "▁c"], "ca\u00a0b c") == [0, 0, 1]  # a piece of two words
    with pytest.raises(UnsupportedError, match="'▁a▁b' spans several words"):
        units.words(["▁a▁b"])


def test_symbols_between_separators_are_words_even_with_blanks_in_them() -> None:
    side = Field.build(SideConfig(units="separator", separator=";"), ["new york;paris"])
    text = "new york; paris"
    assert side.words(side.split(text), text).texts == ("new york", "paris")


def test_no_word_is_part_of_two_columns() -> None:
    config = SideConfig(units=["character", "separator"], separator=";")
    side = Field.build(config, ["go\tV;PST", "to be\tV"], num_columns=2)
    text = "to be\tV;PST"
    words = side.words(side.split(text), text)
    assert words.texts == ("to", "be", "V", "PST")
    assert words.index.tolist() == [0, 0, -1, 1, 1, 2, 3]


def test_words_of_normalised_texts_are_those_of_the_raw_text() -> None:
    side = Field(Normalisation("upper"), field(units="word").units, Vocabulary(["A"]))
    assert side.words(side.split(" so, what "), " so, what ").texts == ("SO,", "WHAT")


PAIR = st.tuples(st.integers(0, 12), st.integers(0, 12))


@given(st.frozensets(PAIR), st.frozensets(PAIR))
def test_links_are_read_as_they_are_written(sure: frozenset, possible: frozenset) -> None:
    links = Links(sure, possible - sure)
    assert parse_links(str(links)) == links
    shifted = parse_links(" ".join(f"{s + 1}-{t + 1}" for s, t in sure), first=1)
    assert shifted.sure == sure


def test_possible_links_have_three_spellings_and_tasks_a_form_of_their_own(tmp_path: Path) -> None:
    assert parse_links("0?1 2p3 4P5 6-7") == Links(frozenset({(6, 7)}), frozenset({(0, 1), (2, 3), (4, 5)}))
    (tmp_path / "lines").write_text("0-0 1-1\n\n2?0\n")
    lines = read_links(tmp_path / "lines")
    assert [str(each) for each in lines] == ["0-0 1-1", "", "2?0"]
    (tmp_path / "numbered").write_text("0001 1 1 S\n1 2 3 P 0.5\n3 4 1\n")
    numbered = read_links(tmp_path / "numbered")
    assert [str(each) for each in numbered] == ["0-0 1?2", "", "3-0"]
    longer = read_links(tmp_path / "numbered", num_pairs=4)
    assert [str(each) for each in longer] == ["0-0 1?2", "", "3-0", ""]


@pytest.mark.parametrize(
    ("text", "first", "message"),
    [
        ("0-0\n1:1\n", 0, "links:2: expected links such as 0-0 1-2, or 1\\?2 .*got '1:1'"),
        ("0-0\n", 1, "links:1: the link 0-0 has a number below 1"),
        ("1 1 1 S\n1 0 1 S\n", 0, "links:2: expected `pair source output S`, counted from 1; got '1 0 1 S'"),
        ("1 1 1 S\n0-0\n", 0, "links:2: expected `pair source output S`"),
        ("1 1 1 S\n999999999 1 1 S\n", 0, "links:2: expected `pair source output S`"),  # more than memory holds
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, first: int, message: str) -> None:
    (tmp_path / "links").write_text(text)
    with pytest.raises(DataError, match=message):
        read_links(tmp_path / "links", first=first)


@given(st.lists(st.tuples(st.frozensets(PAIR), st.frozensets(PAIR), st.frozensets(PAIR)), max_size=4))
def test_the_error_rate_is_that_of_och_and_ney(drawn: list) -> None:
    errors = alignment_errors([found for found, _, _ in drawn], [Links(sure, maybe) for _, sure, maybe in drawn])
    a = {(i, link) for i, (found, _, _) in enumerate(drawn) for link in found}
    s = {(i, link) for i, (_, sure, _) in enumerate(drawn) for link in sure}
    p = s | {(i, link) for i, (_, _, maybe) in enumerate(drawn) for link in maybe}
    assert (errors.num_links, errors.num_sure, errors.num_possible) == (len(a), len(s), len(p))
    assert math.isnan(errors.precision) if not a else errors.precision == len(a & p) / len(a)
    assert math.isnan(errors.recall) if not s else errors.recall == len(a & s) / len(s)
    if a or s:
        assert errors.error_rate == pytest.approx(1 - (len(a & s) + len(a & p)) / (len(a) + len(s)))
    else:
        assert math.isnan(errors.error_rate)


def test_as_many_references_as_pairs_are_needed() -> None:
    with pytest.raises(DataError, match="1 pairs, 2 references"):
        alignment_errors([[]], [Links(), Links()])
