"""Normalisation, units, vocabularies and fields."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
import signal
import sys
import threading
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data.text import (
    BOS,
    EOS,
    PAD,
    UNKNOWN,
    ByteUnits,
    CharacterUnits,
    Field,
    LetterUnits,
    Normalisation,
    SentencePieceUnits,
    Units,
    Vocabulary,
    WhitespaceUnits,
    WordUnits,
)
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError
from regard.tasks.text_to_text.config import SideConfig

CASES = ("keep", "upper", "lower")
FORMS = ("keep", "NFC", "NFD", "NFKC", "NFKD")
AWKWARD = ["\n", "\t", " ", "\r", "\u2028", "\x85", "\x00", '"', "\\", "</s>", "<unk>", "<pad>", "", "\ud800", "𝄞", "é"]
PLAIN: dict[str, type[Units]] = {
    "character": CharacterUnits,
    "letter": LetterUnits,
    "word": WordUnits,
    "whitespace": WhitespaceUnits,
    "byte": ByteUnits,
}
any_text = st.text(st.characters(), max_size=20)
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_normalising_twice_changes_nothing_for_any_character() -> None:
    characters = map(chr, range(sys.maxunicode + 1))
    changing = [c for c in characters if c.upper() != c or c.lower() != c or unicodedata.normalize("NFKD", c) != c]
    assert len(changing) > 10_000
    for normalise in (Normalisation(case, form) for case in CASES for form in FORMS):  # type: ignore[arg-type]
        for character in changing:
            once = normalise(character)
            assert normalise(once) == once, hex(ord(character))


@given(any_text, st.sampled_from(CASES), st.sampled_from(FORMS))
def test_normalising_twice_changes_nothing(text: str, case: Any, form: Any) -> None:
    normalise = Normalisation(case, form)
    once = normalise(text)
    assert normalise(once) == once
    assert once == once.strip()


def test_normalisation_does_what_it_says() -> None:
    assert Normalisation("upper", "NFC")("  strasse\u0301  ") == "STRASSÉ"
    assert Normalisation("lower", "NFD")("É") == "e\u0301"
    assert Normalisation("lower", "NFKC")("㎒ ﬁ") == "mhz fi"
    assert Normalisation("keep", "keep")("e\u0301ﬁ ") == "e\u0301ﬁ"


@pytest.mark.parametrize(
    ("units", "text", "tokens"),
    [
        ("character", "ab ç", ["a", "b", " ", "ç"]),
        ("character", "", []),
        ("letter", "né 한", ["n", "e", "\u0301", " ", "\u1112", "\u1161", "\u11ab"]),
        ("whitespace", "  AH T,\u00a0EH ", ["AH", "T,", "EH"]),
        ("byte", "aç", ["<0x61>", "<0xC3>", "<0xA7>"]),
        ("byte", "<0x61>"[:2], ["<0x3C>", "<0x30>"]),
        ("word", "Hello, world...", ["Hello", ",", "world", ".", ".", "."]),
        ("word", "don't well-known 3.14 a.m.", ["don't", "well-known", "3.14", "a.m", "."]),
        ("word", "«Où ?» ¿Qué?", ["«", "Où", "?", "»", "¿", "Qué", "?"]),
        ("word", "--- a_b _c", ["-", "-", "-", "a_b", "_", "c"]),
        ("word", "AH0 t͡ʃ aː $5", ["AH0", "t͡ʃ", "aː", "$5"]),
        ("word", "", []),
    ],
)
def test_units_cut_texts_as_described(units: str, text: str, tokens: list[str]) -> None:
    assert PLAIN[units]().split(text) == tokens


@given(any_text)
def test_characters_and_bytes_come_back_exactly(text: str) -> None:
    assert CharacterUnits().join(CharacterUnits().split(text)) == text
    composed = unicodedata.normalize("NFC", text)
    assert LetterUnits().join(LetterUnits().split(composed)) == composed
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert ByteUnits().join(ByteUnits().split(text)) == text


@given(any_text)
def test_whitespace_and_word_symbols_hold_no_spaces_and_lose_no_other_character(text: str) -> None:
    for units in (WhitespaceUnits(), WordUnits()):
        tokens = units.split(text)
        assert all(token and not any(map(str.isspace, token)) for token in tokens)
        assert "".join(tokens) == "".join(text.split())
    assert WhitespaceUnits().split(WhitespaceUnits().join(WhitespaceUnits().split(text))) == text.split()


@pytest.mark.parametrize(
    "text",
    [
        "Two men (in hats), one dog: all outside!",
        'She said "yes, please" and left.',
        "„Wirklich?“ fragte er.",
        "¿Qué hora es?",
        "one - two & three",
        "AH0 T EH1 N",
        "It's 3.14, isn't it?",
    ],
)
def test_joined_words_read_as_the_text_did(text: str) -> None:
    assert WordUnits().join(WordUnits().split(text)) == text


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert ByteUnits().join(["<0x61>", "<0xC3>", "<0x62>", "<unk>"]) == "a\ufffdb\ufffd"


def test_ids_are_the_specials_and_then_symbols_by_count_and_code_point() -> None:
    vocabulary = Vocabulary.build([["b", "c"], ["a", "c", "b"], ["d", "c"]])
    assert (PAD, BOS, EOS, UNKNOWN) == (0, 1, 2, 3)
    assert vocabulary.symbols == ("c", "b", "a", "d")
    assert vocabulary.tokens(range(len(vocabulary))) == ["<pad>", "<s>", "</s>", "<unk>", "c", "b", "a", "d"]
    assert vocabulary.ids(["d", "x", "c"]).tolist() == [7, 3, 4]
    assert vocabulary.ids([]).dtype == np.int64
    assert vocabulary.unknown(["x", "c", "y", "x"]) == ["x", "y", "x"]
    assert "c" in vocabulary
    assert "<unk>" not in vocabulary


def test_rare_symbols_and_those_beyond_the_maximum_are_left_out() -> None:
    tokens = [["a"] * 3 + ["b"] * 2 + ["c"] * 2 + ["d"]]
    assert Vocabulary.build(tokens, min_count=2).symbols == ("a", "b", "c")
    assert Vocabulary.build(tokens, max_symbols=2).symbols == ("a", "b")


@given(st.lists(st.lists(st.sampled_from([*AWKWARD, "a", "b"]), max_size=6), max_size=8), st.randoms())
def test_a_vocabulary_does_not_depend_on_the_order_of_the_texts(texts: list[list[str]], order: random.Random) -> None:
    shuffled = order.sample(texts, len(texts))
    assert Vocabulary.build(texts).symbols == Vocabulary.build(shuffled).symbols
    counts = Counter(token for text in texts for token in text)
    symbols = Vocabulary.build(texts).symbols
    assert set(symbols) == set(counts)
    assert all((-counts[a], a) < (-counts[b], b) for a, b in itertools.pairwise(symbols))


def test_texts_that_look_like_specials_are_symbols_like_others() -> None:
    vocabulary = Vocabulary.build([["</s>", "<unk>", "<s>", "<pad>"]])
    ids = vocabulary.ids(["</s>", "<unk>", "<s>", "<pad>"])
    assert min(ids) > UNKNOWN
    assert vocabulary.unknown(["</s>", "<unk>"]) == []
    assert Vocabulary.build([["a"]]).ids(["</s>", "<pad>"]).tolist() == [UNKNOWN, UNKNOWN]


@same_folder
@given(st.lists(st.one_of(st.sampled_from(AWKWARD), st.text(st.characters(), max_size=4)), unique=True))
def test_any_symbols_are_saved_and_loaded(tmp_path: Path, symbols: list[str]) -> None:
    path = tmp_path / "vocabulary.json"
    vocabulary = Vocabulary(symbols)
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
    assert len(path.read_text(encoding="utf-8").split("\n")) == 6 + max(1, len(symbols))


def test_a_saved_vocabulary_can_be_read_by_eye(tmp_path: Path) -> None:
    Vocabulary(["é", "ʃ", "\u2028"]).save(tmp_path / "v.json")
    assert '"é",\n"ʃ",\n"\\u2028"\n' in (tmp_path / "v.json").read_text(encoding="utf-8")


def test_a_symbol_twice_is_refused() -> None:
    with pytest.raises(RegardError, match="'a' occurs twice"):
        Vocabulary(["a", "b", "a"])


@pytest.mark.parametrize("units", ["character", "word", "whitespace", "byte"])
@pytest.mark.parametrize("case", CASES)
def test_a_field_encodes_and_decodes_and_is_the_same_after_loading(tmp_path: Path, units: Any, case: Any) -> None:
    texts = ["Ein Mann, im Grünen.", "zwei\u2028Hunde </s>", ""]
    field = Field.build(SideConfig(units=units, case=case), texts)
    field.save(tmp_path / "run", "source")
    loaded = Field.load(tmp_path / "run", "source")
    for text in [*texts, "Ganz neu"]:
        encoding, again = field.encode(text), loaded.encode(text)
        assert encoding.ids.dtype == np.int64
        assert encoding.ids.tolist() == again.ids.tolist()
        assert len(encoding.tokens) == len(encoding.ids)
        assert encoding.unknown == [t for t, i in zip(encoding.tokens, encoding.ids) if i == UNKNOWN]
        assert loaded.decode(encoding.ids) == field.decode(encoding.ids)
    text = texts[0]
    assert field.decode([BOS, *field.encode(text).ids, EOS, PAD]) == field.normalisation(text)


def test_unknown_symbols_are_reported_and_stay_visible() -> None:
    field = Field.build(SideConfig(units="whitespace"), ["a b"])
    encoding = field.encode("a x b y")
    assert encoding.unknown == ["x", "y"]
    assert encoding.ids.tolist() == [4, 3, 5, 3]
    assert field.decode(encoding.ids) == "a <unk> b <unk>"


def test_a_field_reads_its_texts_once_and_honours_its_limits() -> None:
    texts = iter(["b b c", "a a b", "c"])
    field = Field.build(SideConfig(units="whitespace", vocabulary_size=2, min_count=2), texts)
    assert field.vocabulary.symbols == ("b", "a")


def test_bytes_are_all_known_whatever_the_texts() -> None:
    field = Field.build(SideConfig(units="byte"), ["a"])
    assert len(field.vocabulary) == 260
    assert field.encode("漢字").unknown == []
    assert field.decode(field.encode("漢字").ids) == "漢字"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"units": "byte", "min_count": 2}, "min_count"),
        ({"units": "byte", "vocabulary_size": 9}, "vocabulary_size"),
        ({"units": "word", "sentencepiece_model": "x.model"}, "sentencepiece_model"),
        ({"units": "sentencepiece", "min_count": 2}, "min_count"),
        ({"units": "sentencepiece", "sentencepiece_model": "x.model", "vocabulary_size": 9}, "vocabulary_size"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(options: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=rf"data.target.{key}=.* has no effect") as caught:
        Field.build(SideConfig(**options), ["a"], name="target")
    assert caught.value.path == ("data", "target", key)


def test_texts_without_symbols_are_refused() -> None:
    with pytest.raises(DataError, match=r"No symbol of the target texts occurs 5 times; lower data.target.min_count"):
        Field.build(SideConfig(min_count=5), ["abc"], name="target")


def damaged(folder: Path, **changes: Any) -> Path:
    Field.build(SideConfig(), ["ab"]).save(folder, "source")
    path = folder / "source.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 2}, r"source.json: format 2 is newer than 1, the latest that this version of regard reads"),
        ({"format": None}, "no format number"),
        ({"symbols": "ab"}, "expected `symbols` to be a list of texts"),
        ({"symbols": ["a", 1]}, "expected `symbols` to be a list of texts"),
        ({"symbols": ["a", "a"]}, "'a' occurs twice"),
        ({"units": "syllable"}, "`units` must be one of character, .*; got 'syllable'"),
        ({"units": "byte"}, "the symbols are not those of the byte units"),
        ({"normalisation": {"case": "title", "unicode": "NFC"}}, "needs a `case`, one of keep, upper, lower"),
        ({"normalisation": {"case": "keep", "unicode": "UTF"}}, "needs a `unicode`, one of keep, NFC"),
        ({"normalisation": None}, "needs a `case`"),
        ({"longest": "long"}, "`longest` must be a number of symbols; got 'long'"),
        ({"longest": 0}, "`longest` must be a number of symbols; got 0"),
    ],
)
def test_a_damaged_or_newer_file_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    damaged(tmp_path, **changes)
    with pytest.raises(RegardError, match=words):
        Field.load(tmp_path, "source")


def test_a_missing_or_broken_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"source.json: cannot be read"):
        Field.load(tmp_path, "source")
    for text in ("{", "[]", "\ud800"):
        (tmp_path / "source.json").write_text(text, encoding="utf-8", errors="surrogatepass")
        with pytest.raises(DataError, match=r"source.json: no"):
            Field.load(tmp_path, "source")


def test_saved_fields_hold_no_code(tmp_path: Path) -> None:
    Field.build(SideConfig(), ["ab"]).save(tmp_path, "source")
    assert [path.name for path in tmp_path.iterdir()] == ["source.json"]
    json.loads((tmp_path / "source.json").read_text())


def test_units_of_ones_own_cannot_be_saved(tmp_path: Path) -> None:
    class Syllables(CharacterUnits):
        pass

    field = Field(Normalisation(), Syllables(), Vocabulary(["a"]))
    assert field.encode("a").ids.tolist() == [4]
    with pytest.raises(RegardError, match="Syllables cannot be saved"):
        field.save(tmp_path, "source")


SENTENCES = [
    f"{subject} {verb} {place}."
    for subject in ("the cat", "a dog", "the man", "a woman")
    for verb in ("sat", "slept", "stood", "waited")
    for place in ("on the mat", "in the garden", "by the door")
]


@pytest.fixture(scope="module")
def pieces() -> Field:
    pytest.importorskip("sentencepiece")
    return Field.build(SideConfig(units="sentencepiece", vocabulary_size=60), SENTENCES)


def test_pieces_come_back_as_text_and_unknown_characters_are_reported(pieces: Field) -> None:
    for text in [*SENTENCES, "the woman slept"]:
        encoding = pieces.encode(text)
        assert encoding.unknown == []
        assert pieces.decode([BOS, *encoding.ids, EOS]) == text
    assert len(pieces.vocabulary) <= 64
    assert sum(len(pieces.split(text)) for text in SENTENCES) < 0.9 * sum(map(len, SENTENCES))
    assert pieces.encode("the ß cat").unknown == ["ß"]
    assert pieces.decode([]) == ""


def test_texts_that_look_like_specials_are_cut_like_others(pieces: Field) -> None:
    for text in ("</s>", "<unk>", "<s>"):
        encoding = pieces.encode(text)
        assert EOS not in encoding.ids
        assert BOS not in encoding.ids
        assert "".join(encoding.tokens) == "▁" + text


def test_a_learned_model_is_the_same_each_time_and_after_saving_and_pickling(pieces: Field, tmp_path: Path) -> None:
    again = Field.build(SideConfig(units="sentencepiece", vocabulary_size=60), iter(SENTENCES))
    assert isinstance(pieces.units, SentencePieceUnits)
    assert isinstance(again.units, SentencePieceUnits)
    assert again.units.model == pieces.units.model
    pieces.save(tmp_path, "target")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target.json", "target.model"]
    for copy in (Field.load(tmp_path, "target"), pickle.loads(pickle.dumps(pieces))):
        assert copy.encode(SENTENCES[3]).ids.tolist() == pieces.encode(SENTENCES[3]).ids.tolist()
        assert copy.vocabulary == pieces.vocabulary
    config = SideConfig(units="sentencepiece", sentencepiece_model=tmp_path / "target.model")
    assert Field.build(config, []).vocabulary == pieces.vocabulary


def test_a_model_that_does_not_belong_to_the_vocabulary_is_refused(pieces: Field, tmp_path: Path) -> None:
    pieces.save(tmp_path, "target")
    (tmp_path / "target.model").write_bytes(SentencePieceUnits.train(["abc abd"] * 5).model)
    with pytest.raises(DataError, match="are from different models"):
        Field.load(tmp_path, "target")
    (tmp_path / "target.model").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"target.model: Not a sentencepiece model"):
        Field.load(tmp_path, "target")
    (tmp_path / "target.model").unlink()
    with pytest.raises(DataError, match=r"target.model: cannot be read"):
        Field.load(tmp_path, "target")


def test_too_few_pieces_and_no_texts_are_refused() -> None:
    pytest.importorskip("sentencepiece")
    with pytest.raises(ConfigError, match=r"(?s)cannot learn 5 pieces.*raise vocabulary_size") as caught:
        Field.build(SideConfig(units="sentencepiece", vocabulary_size=5), SENTENCES, name="target")
    assert caught.value.path == ("data", "target", "vocabulary_size")
    with pytest.raises(ConfigError, match="cannot learn"):
        Field.build(SideConfig(units="sentencepiece"), [])


def test_an_error_in_the_texts_reaches_the_caller_as_it_is() -> None:
    pytest.importorskip("sentencepiece")

    def texts() -> Any:
        yield "abc"
        raise DataError("a.tsv:2: not UTF-8")

    with pytest.raises(DataError, match=r"a.tsv:2: not UTF-8"):
        Field.build(SideConfig(units="sentencepiece"), texts())


def test_without_sentencepiece_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'regard\[text\]'"):
        Field.build(SideConfig(units="sentencepiece"), ["a"])


def test_pieces_are_not_learned_from_texts_longer_than_any_that_is_trained_on(pieces: Field) -> None:
    config = SideConfig(units="sentencepiece", vocabulary_size=60)
    long = " ".join(SENTENCES) * 3 + "§"
    with_it = Field.build(config, [*SENTENCES, long], max_length=len(long) // 16)
    assert with_it.vocabulary == pieces.vocabulary
    assert "§" in Field.build(config, [*SENTENCES, long], max_length=len(long)).vocabulary


def test_half_a_surrogate_pair_is_refused_whatever_the_units(pieces: Field) -> None:
    for field in (pieces, Field.build(SideConfig(), ["ab"]), Field.build(SideConfig(units="byte"), ["ab"])):
        encoding = field.encode("a\udc80")
        assert encoding.tokens == []
        assert "half a surrogate pair" in encoding.refusal


def test_learning_pieces_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    done = threading.Event()
    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", lambda **options: done.wait(60))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        SentencePieceUnits.train(["a"])
    done.set()
