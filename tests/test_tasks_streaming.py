"""Outputs of tasks, piece by piece, from Python and on the command line."""

from __future__ import annotations

import pytest
import torch

from regard import Search
from regard.cli import run
from regard.data.text import CharacterUnits, Field, Vocabulary
from regard.data.text.normalisation import Normalisation
from regard.decoding import Prediction
from regard.errors import ConfigError
from regard.runs.store import save
from regard.tasks import LanguageModel, TextToText
from regard.tasks.language_modelling.config import LanguageModellingConfig
from regard.tasks.streaming import Pieces
from regard.tasks.text_to_text.config import SideConfig, TextToTextConfig

torch.set_num_threads(1)
INPUTS = ["abcd", "", "f", "aab, cd", "fedcba"]
SEARCHES = [Search(beam=1), Search(beam=4, min_length=2), Search(method="sampling", seed=2, temperature=1.5)]
LEARNED = ["a b, cd é f.", "(ab) cd: eé, f!", "fab. dec"]


def made(units="character", direction="left_to_right", **decoding):
    torch.manual_seed(1)
    side = {"size": 8, "embedding_size": 6, "dropout": 0.0}
    config = TextToTextConfig(
        data={"train": "x.tsv", "target": {"direction": direction, "units": units}},
        model={"encoder": side, "decoder": side},
        decoding=decoding,
    )
    source, target = Field.build(SideConfig(), ["abcdef ,"]), Field.build(SideConfig(units=units), LEARNED)
    model = TextToText.build(config, source, target)
    with torch.no_grad():
        for weight in model.module.parameters():
            weight.mul_(3)
    return model


def language_model():
    torch.manual_seed(1)
    config = LanguageModellingConfig(data={"train": "x.txt"}, model={"size": 8, "dropout": 0.0})
    model = LanguageModel.build(config, Field(Normalisation(), CharacterUnits(), Vocabulary([*"abc \n"])))
    with torch.no_grad():
        for weight in model.module.parameters():
            weight.mul_(2)
    return model


def gathered(pieces, count):
    """By input: the text and the ids of all pieces, their alignments, and the last one's prediction."""
    found = [[] for _ in range(count)]
    for piece in pieces:
        assert not any(earlier.prediction for earlier in found[piece.index]), "a piece after the last"
        found[piece.index].append(piece)
    return found


@pytest.mark.parametrize("units", ["character", "letter", "word", "whitespace", "byte"])
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("limits", [{}, {"max_length": 3}, {"batch_tokens": 12}])
def test_all_pieces_of_a_text_are_its_prediction(units, search, limits):
    model = made(units, **limits)
    expected = model.predict(INPUTS, search=search)
    found = gathered(model.stream(INPUTS, search=search), len(INPUTS))
    for pieces, prediction in zip(found, expected, strict=True):
        whole = pieces[-1].prediction
        assert "".join(piece.text for piece in pieces) == prediction.text == whole.text
        assert (whole.tokens, whole.stop_reason, whole.warnings) == (
            prediction.tokens, prediction.stop_reason, prediction.warnings,
        )  # fmt: skip
        assert whole.score == pytest.approx(prediction.score)
        ids = [number for piece in pieces for number in piece.ids.tolist()]
        ended = prediction.stop_reason == "eos"
        assert model.target.tokens(ids) == prediction.tokens[: len(prediction.tokens) - ended]
        if prediction.alignment is not None:
            torch.testing.assert_close(whole.alignment, prediction.alignment)
            rows = torch.cat([piece.alignments["attention"] for piece in pieces], 1).mean(0)
            torch.testing.assert_close(rows[:, : len(prediction.source_tokens)], prediction.alignment[: len(ids)])


def test_pieces_come_before_the_output_is_whole():
    model = made()
    for search in SEARCHES[::2]:
        pieces = [piece for piece in model.stream(["abcd"], search=search.replace(min_length=4)) if piece.text]
        assert len(pieces) >= 4
        assert all(len(piece.text) == 1 for piece in pieces[:4])


@pytest.mark.parametrize("search", [Search(beam=3), Search(method="sampling", seed=4, temperature=0.8)])
def test_continuations_come_piece_by_piece(search):
    model = language_model()
    prompts = ["ab", "c a", ""]
    several = 0
    for tokens in (12, 3):
        settings = {"method": search.method, **search.model_dump(exclude_defaults=True)}
        decoding = model.config.decoding.replace(max_length=tokens, **settings)
        expected = model.predict(prompts, search=decoding)
        found = gathered(model.stream(prompts, search=decoding), len(prompts))
        for pieces, prediction in zip(found, expected, strict=True):
            assert "".join(piece.text for piece in pieces) == prediction.text
            assert pieces[-1].prediction.tokens == prediction.tokens
            torch.testing.assert_close(pieces[-1].prediction.alignment, prediction.alignment)
            several += len(pieces) > 1
    assert several > 3


@pytest.mark.parametrize(
    ("units", "text", "expected"),
    [
        ("byte", "aé€", ["a", "", "é", "", "", "€"]),
        ("letter", "né한각", ["", "n", "", "é", "", "", "한", "", "", "각"]),
    ],
)
def test_what_may_still_change_waits(units, text, expected):
    field = Field.build(SideConfig(units=units), [text])
    pieces = Pieces([field.decode], composes=units == "letter")
    ids = field.encode(text).ids.tolist()

    def increment(tokens, hypothesis=None):
        from regard.decoding import Increment

        return Increment(0, torch.tensor(tokens), torch.zeros(len(tokens)), {}, hypothesis)

    shown = [pieces.piece(0, increment([number]), None).text for number in ids]
    last = Prediction([], [], text, 0.0, 0.0, "eos")
    if units == "letter":
        shown.append(pieces.piece(0, increment([]), last).text)
    assert shown == expected


def test_an_ensemble_streams_and_what_is_not_certain_is_refused(tmp_path):
    model = made()
    save(made("character"), tmp_path / "other")
    search = model.config.decoding.replace(ensemble=tmp_path / "other", beam=2)
    found = gathered(model.stream(["abc"], search=search), 1)
    assert found[0][-1].prediction.text == model.predict(["abc"], search=search)[0].text
    for settings, message in (
        (
            {"reranker": tmp_path / "other"},
            "reranker is .*, but outputs are reranked when they are whole; leave it out",
        ),
        ({"method": "mbr"}, "method is mbr, but nothing is certain"),
        ({"num_best": 3}, "num_best is 3, but the order"),
    ):
        with pytest.raises(ConfigError, match=message):
            model.stream(["abc"], search=model.config.decoding.replace(**settings))
    with pytest.raises(ConfigError, match="writes from right to left"):
        made(direction="right_to_left").stream(["abc"])


def test_the_command_prints_outputs_in_the_order_of_their_inputs(tmp_path, capsys):
    model = made("word")
    save(model, tmp_path / "model")
    texts = ["fedcba", "ab", "zz", "f", "abcdef"]
    arguments = ["predict", "-m", str(tmp_path / "model"), "--beam", "3", *texts]
    assert run(arguments) == 0
    plain = capsys.readouterr()
    assert run([*arguments, "--stream"]) == 0
    streamed = capsys.readouterr()
    assert streamed.out == plain.out
    assert streamed.err == plain.err != ""
    assert run([*arguments, "--stream", "--format", "text"]) == 0
    assert capsys.readouterr().out == "".join(line.split("\t")[1] + "\n" for line in plain.out.splitlines())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--format", "jsonl"], "--stream prints tsv or text, not jsonl"),
        (["--scores"], "--stream does not combine with --scores"),
        (["--num-best", "2"], "num_best is 2, but the order of several outputs is known at the end only"),
        (["--method", "mbr"], "method is mbr, but nothing is certain before all samples are whole"),
    ],
)
def test_the_command_refuses_what_cannot_be_printed_as_it_comes(tmp_path, capsys, flags, message):
    save(made(), tmp_path / "model")
    assert run(["predict", "-m", str(tmp_path / "model"), "--stream", *flags, "ab"]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


def test_a_continuation_is_printed_in_one_line(tmp_path, capsys):
    save(language_model(), tmp_path / "model")
    arguments = ["predict", "-m", str(tmp_path / "model"), "--max-length", "30", "--temperature", "1.5", "ab", "c"]
    assert run(arguments) == 0
    plain = capsys.readouterr().out
    assert run([*arguments, "--stream"]) == 0
    assert capsys.readouterr().out == plain
    assert "⏎" in plain


def test_a_prediction_without_symbols_is_one_piece():
    (piece,) = made().stream([""])
    assert (piece.text, len(piece.ids), piece.prediction.warnings) == ("", 0, ("the input is empty",))
    assert isinstance(piece.prediction, Prediction)
