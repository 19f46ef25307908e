"""Extended vocabularies: how a pointer names the symbols of a source."""

from __future__ import annotations

from typing import Any

import pytest

from regard.data.text import ExtendedVocabulary, Field
from regard.data.text.extended import comparable
from regard.tasks.text_to_text.config import SideConfig


def field(texts: list[str], num_columns: int = 1, **options: Any) -> Field:
    return Field.build(SideConfig(**options), texts, num_columns=num_columns)


def words(source: dict[str, Any] | None = None, target: dict[str, Any] | None = None) -> ExtendedVocabulary:
    """Both sides know `a b`; a target has the ids 4 and 5 for them, and N is 6."""
    sides = ({"units": "whitespace", **(options or {})} for options in (source, target))
    return ExtendedVocabulary(*(field(["a b"], **options) for options in sides))


def test_symbols_that_the_target_lacks_are_numbered_in_order_once() -> None:
    extension = words().extend("x b y x a")
    assert extension.ids.tolist() == [6, 5, 7, 6, 4]
    assert extension.symbols == extension.texts == ("x", "y")


def test_ids_of_a_target_are_those_of_its_own_source() -> None:
    vocabulary = words()
    tokens = ["y", "a", "z", "x"]
    assert vocabulary.ids(tokens, vocabulary.extend("x y")).tolist() == [7, 4, 3, 6]
    assert vocabulary.ids(tokens, vocabulary.extend("z")).tolist() == [3, 4, 6, 3]
    assert vocabulary.ids(tokens, vocabulary.extend("b")).tolist() == [3, 4, 3, 3]


def test_symbols_are_compared_as_targets_have_them_and_written_as_sources_have_them() -> None:
    lower = words({"case": "lower"}, {"case": "lower"}).extend("A Ulm ULM ulm")
    assert (lower.ids.tolist(), lower.symbols, lower.texts) == ([4, 6, 6, 6], ("ulm",), ("Ulm",))
    # a source in lower case, a target as it is: the words of the source are copied as they stand there
    kept = words({"case": "lower"}).extend("A Ulm b")
    assert (kept.ids.tolist(), kept.symbols, kept.texts) == ([6, 7, 5], ("A", "Ulm"), ("A", "Ulm"))
    upper = words(target={"case": "upper"}).extend("a ulm")
    assert (upper.ids.tolist(), upper.symbols, upper.texts) == ([4, 6], ("ULM",), ("ulm",))
    composed = words(target={"unicode": "NFD"}).extend("café")
    assert (composed.symbols, composed.texts) == (("cafe\u0301",), ("café",))


def test_words_of_other_word_units_compare_unless_the_target_would_divide_them() -> None:
    source, target = field(["a b"], units="whitespace"), field(["a b"], units="word")
    extension = ExtendedVocabulary(source, target).extend("a Ulm, Ulm")
    assert (extension.ids.tolist(), extension.symbols) == ([4, -1, 6], ("Ulm",))


def test_characters_are_copied_and_keep_their_spaces() -> None:
    vocabulary = ExtendedVocabulary(field(["a b"]), field(["a b"]))
    extension = vocabulary.extend(" b q ")
    assert extension.symbols == ("q",)
    assert vocabulary.decode(extension.ids, extension) == "b q"


@pytest.mark.parametrize("text", ["I\u0307stanbul", "e\u0301t\u00e9", "Ⅳ x"])
def test_a_text_whose_symbols_change_in_number_is_copied_as_it_was_read(text: str) -> None:
    side = field(["ab "], case="lower", unicode="NFKC")
    vocabulary = ExtendedVocabulary(side, side)
    extension = vocabulary.extend(text)
    assert len(extension.ids) == len(side.split(text))
    assert "".join(vocabulary.tokens(extension.ids, extension)) == side.normalisation(text)


def test_columns_whose_units_differ_are_not_copied() -> None:
    source = field(["ab\tV;PST"], 2, units=("character", "separator"), separator=";")
    vocabulary = ExtendedVocabulary(source, field(["ab"]))
    extension = vocabulary.extend("q+a\tV;b")
    assert len(extension.ids) == len(source.split("q+a\tV;b"))
    assert extension.ids.tolist() == [6, 7, 4, -1, -1]
    assert vocabulary.decode([6, 7, 5], extension) == "q+b"


def test_columns_of_words_are_copied_without_their_marks() -> None:
    source = field(["a b\tb a"], 2, units="whitespace")
    extension = ExtendedVocabulary(source, field(["a b"], units="whitespace")).extend("a x\tx b y")
    assert (extension.ids.tolist(), extension.symbols) == ([4, 6, 6, 5, 7], ("x", "y"))


def test_bytes_lack_nothing() -> None:
    side = field(["ab"], units="byte")
    vocabulary = ExtendedVocabulary(side, side)
    extension = vocabulary.extend("é")
    assert extension.symbols == ()
    assert vocabulary.decode(extension.ids, extension) == "é"


def test_pieces_are_copied() -> None:
    pytest.importorskip("sentencepiece")
    texts = ["the cat sat on the mat", "the dog saw the cat", "a cat and a dog"] * 20
    side = field(texts, units="sentencepiece", vocabulary_size=40)
    vocabulary = ExtendedVocabulary(side, side)
    text = "the cat saw Ω and the dog"
    extension = vocabulary.extend(text)
    assert len(extension.symbols) == 1
    assert vocabulary.decode(extension.ids, extension) == text


def test_specials_are_not_written() -> None:
    vocabulary = words()
    extension = vocabulary.extend("</s> x")
    assert vocabulary.tokens([1, 6, 7, 3, 4, 2], extension) == ["</s>", "x", "<unk>", "a"]


def test_which_units_compare() -> None:
    assert comparable("word", "separator")
    assert comparable("byte", "byte")
    assert not comparable("word", "character")
    assert not comparable("sentencepiece", "word")
