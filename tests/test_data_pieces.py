"""How many pieces sentencepiece learns follows from the texts, and stays with the run."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.cli import run
from regard.config import from_preset, load
from regard.data.text import Field
from regard.data.text.field import open_pieces
from regard.data.text.pieces import MOST_PIECES, suggested_pieces
from regard.runs.automatic_settings import adopt
from regard.tasks.text_to_text.config import SideConfig, TextToTextConfig
from regard.tasks.text_to_text.defaults import resolve
from regard.tasks.text_to_text.reading import read_pairs as read_data

PIECES = SideConfig(units="sentencepiece")
SENTENCE = "the cat sat on the mat and looked at the other cat"
CHINESE = "我们今天去公园散步然后回家吃饭看书睡觉"


def test_inputs_that_are_equal_once_normalised_are_held_out_together(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(300)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{word}\ta\n{word.upper()}\tb\n" for word in words))
    settings = [f"data.train={tmp_path / 'pairs.tsv'}", "data.source.case=lower", "data.dev_fraction=0.1"]
    data = read_data(from_preset("text-to-text", settings).config.data)
    dev = {pair.source for pair in data.dev}
    assert 10 < len(dev) < 150
    assert {source.lower() for source in dev}.isdisjoint(pair.source.lower() for pair in data.train)


@pytest.mark.parametrize(("count", "pieces"), [(30, 260), (300, 810), (29_000, 8_000), (300_000, 26_000)])
def test_pieces_grow_with_the_square_root_of_the_words(count: int, pieces: int) -> None:
    assert suggested_pieces([SENTENCE] * count) == pieces


def test_there_are_at_most_32_000_pieces_but_one_for_every_character_and_more() -> None:
    assert suggested_pieces([" ".join(["w"] * 1_000)] * 6_000) == MOST_PIECES == 32_000
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 3_000)))
    assert suggested_pieces([many]) == 3_100
    most = "".join(map(chr, range(0x10000, 0x10000 + 40_000)))
    assert suggested_pieces([most]) == 41_000


def test_scripts_without_blanks_have_a_word_every_four_characters() -> None:
    count = 10_000
    words = len(CHINESE) / 4 * count
    assert suggested_pieces([CHINESE] * count) == pytest.approx(13.5 * words**0.5, rel=0.05)
    assert suggested_pieces([CHINESE] * count) > 2 * suggested_pieces(["Haus"] * count)


def test_texts_that_no_piece_is_learned_from_do_not_count() -> None:
    texts = [SENTENCE] * 300
    assert suggested_pieces([*texts, "", "x y " * 100_000], max_length=400) == suggested_pieces(texts)


def test_a_number_is_counted_only_where_it_is_open() -> None:
    assert open_pieces(PIECES, [SENTENCE] * 300) == 810
    assert open_pieces(SideConfig(units=("sentencepiece",)), [SENTENCE] * 300) == 810
    never = iter(())
    assert open_pieces(SideConfig(units="sentencepiece", vocabulary_size=70), never) is None
    assert open_pieces(SideConfig(units="sentencepiece", sentencepiece_model=Path("a.model")), never) is None
    assert open_pieces(SideConfig(), never) is None


def sentences(count: int) -> list[str]:
    """Sentences with many different words, so that as many pieces can be learned as are asked for."""
    draw = random.Random(1)
    words = ["".join(draw.choices("aeioubdgklmnprst", k=draw.randint(2, 9))) for _ in range(400)]
    return [" ".join(draw.choices(words, k=draw.randint(4, 12))) for _ in range(count)]


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("sentencepiece")
    monkeypatch.chdir(tmp_path)
    texts = sentences(240)
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts), encoding="utf-8")
    return tmp_path / "pairs.tsv"


def test_a_field_of_its_own_learns_the_suggested_number(pairs: Path) -> None:
    texts = sentences(240)
    number = suggested_pieces(texts)
    given = Field.build(SideConfig(units="sentencepiece", vocabulary_size=number), texts)
    assert Field.build(PIECES, iter(texts)).vocabulary == given.vocabulary
    assert number / 2 < len(given.vocabulary) <= number + 4


def test_the_number_is_printed_saved_and_the_same_when_the_run_is_made_again(
    pairs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [f"model.{part}={{size: 8, embedding_size: 8}}" for part in ("encoder", "decoder")]
    training = "training={max_steps: 2, validate_every: 2, samples: 0, device: cpu}"
    arguments = [word for text in (f"data.train={pairs}", training, *sizes) for word in ("--set", text)]
    command = ["train", "--preset", "translation-rnn", *arguments]
    configuration = from_preset("translation-rnn", [f"data.train={pairs}"]).config
    expected = suggested_pieces(pair.source for pair in read_data(configuration.data).train)

    assert run([*command, "--output", "first"]) == 0
    assert f"data.source.vocabulary_size={expected}, data.target.vocabulary_size=" in capsys.readouterr().err
    saved = load("first/config.yaml").config.data
    assert saved.source.vocabulary_size == expected
    assert run([*command, "--output", "first"]) == 0
    assert "has already ended" in capsys.readouterr().err
    more = [word.replace("max_steps: 2", "max_steps: 4") for word in command]
    assert run([*more, "--output", "first"]) == 0
    assert "the run continues" in capsys.readouterr().err
    assert run(["train", "first/config.yaml", "--output", "second"]) == 0
    assert Path("first/source.model").read_bytes() == Path("second/source.model").read_bytes()
    assert run(["data", "check", "first/config.yaml"]) == 0
    assert "vocabulary_size" not in capsys.readouterr().out  # it is given there


def test_no_piece_comes_from_pairs_that_are_too_long_to_train_on(pairs: Path) -> None:
    with pairs.open("a", encoding="utf-8") as file:
        file.write("x y§ " * 25_000 + "\tab\n" + "ab\t" + "x y§ " * 25_000 + "\n")
    (pairs.parent / "dev.tsv").write_text("a\tb\n")
    sides = [f"data.{side}={{units: sentencepiece, vocabulary_size: 60}}" for side in ("source", "target")]
    settings = [f"data.train={pairs}", "data.dev=dev.tsv", "data.max_length=400", *sides]
    data = read_data(from_preset("text-to-text", settings).config.data)
    assert "§" not in data.source.vocabulary
    assert "§" not in data.target.vocabulary


def test_texts_of_few_words_are_told_to_make_few_pieces(pairs: Path) -> None:
    sides = [f"data.{side}={{units: sentencepiece, vocabulary_size: 60}}" for side in ("source", "target")]
    data = read_data(from_preset("text-to-text", [f"data.train={pairs}", *sides]).config.data)
    assert "pieces instead of" not in str(data.check())
    asked = replace(data, chosen={"data.source.vocabulary_size": 9_000})
    assert "sources have only" in str(asked.check())
    assert "pieces instead of 9,000" in str(asked.check())


def test_both_sides_of_an_autoencoder_have_one_number(pairs: Path) -> None:
    settings = [f"data.train={pairs}", "data.source.units=sentencepiece", "data.target.units=sentencepiece"]
    config = from_preset("text-to-text", [*settings, "data.autoencode=true"]).config
    data = read_data(config.data)
    assert data.source is data.target
    source = data.config.source.model_dump()
    assert source == data.config.target.model_dump(include=set(source))
    assert set(data.chosen) == {
        "data.dev_fraction",
        "data.source.vocabulary_size",
        "data.target.vocabulary_size",
    }


@pytest.mark.parametrize("given", [{}, {"vocabulary_size": None}])
def test_a_continued_run_keeps_its_number_though_null_is_given(given: dict[str, None]) -> None:
    config = TextToTextConfig(data={"train": "a", "source": {"units": "sentencepiece", **given}})
    lengths = np.full(500, 9)
    before = resolve(config, lengths, lengths, chosen={"data.source.vocabulary_size": 300}).config
    assert before.data.source.vocabulary_size == 300
    assert adopt(config, before) == before
    assert adopt(config.model_copy(update={"data": before.data}), before).data.target.vocabulary_size is None
