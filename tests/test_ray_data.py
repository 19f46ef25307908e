"""Batches of Ray Data without a cluster, and the options of work on one that are refused."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import regard
from regard.cli import run as command
from regard.errors import ConfigError, DataError, UnsupportedError
from regard.ray import Predictor
from regard.tasks import train
from task_cases import configured


def column(*values):
    return np.array(values, dtype=object)


def test_a_batch_keeps_its_columns_and_gets_outputs_scores_confidences_and_warnings():
    predictor = Predictor("g2p-en", input="word", output="phones", scores=True, confidence=True, warnings=True)
    batch = {"id": np.array([7, 8, 9]), "word": column("regard", "", "na☃")}
    made = predictor(batch)
    assert list(made) == ["id", "word", "phones", "phones_score", "phones_confidence", "phones_warnings"]
    (expected,) = regard.load("g2p-en").predict(["regard"])
    assert made["phones"][:2].tolist() == [expected.text, ""]
    assert made["phones_score"][0] == pytest.approx(expected.score, abs=1e-4)
    assert made["phones_confidence"][0] == pytest.approx(expected.confidence, abs=1e-4)
    assert [bool(each) for each in made["phones_warnings"]] == [False, True, True]
    assert list(batch) == ["id", "word"]
    assert predictor({"id": np.array([]), "word": column()})["phones"].tolist() == []


def test_settings_of_searches_and_the_least_confidence_are_those_of_predict():
    sure = Predictor("g2p-en", at_least=0.99, settings={"beam": 1})({"text": column("attention", "xqzj")})
    assert sure["prediction"].tolist()[1] == ""
    with pytest.raises(ConfigError, match="baem is not a setting"):
        Predictor("g2p-en", settings={"baem": 1})


@pytest.mark.parametrize(
    ("arguments", "batch", "message"),
    [
        ({"input": ("word", "tag")}, {}, r"input is 2 columns \(word, tag\); an input of g2p-en has 1 \(0\)"),
        ({}, {"word": column("a")}, "the dataset has no column text; it has word"),
        ({}, {"text": column("a", None)}, "row 2 of the batch: text is missing; expected a text"),
        ({}, {"text": np.array([1.5])}, r"row 1 of the batch: text is 1\.5, of type float; expected a text"),
        ({}, {"text": column("a"), "prediction": column("b")}, "has a column prediction already"),
        ({}, [1], "the batch is a list; leave out batch_format"),
    ],
)
def test_a_batch_that_does_not_fit_is_an_error_with_its_row_and_column(arguments, batch, message):
    with pytest.raises((ConfigError, DataError), match=message):
        Predictor("g2p-en", **arguments)(batch)


@pytest.mark.parametrize("task", ["documents", "labelling", "language_modelling", "text_to_speech", "forecasting"])
def test_each_task_has_outputs_of_its_own_or_a_reason(task, tmp_path):
    model = train(
        configured(task, tmp_path / "data", max_steps=1, validate_every=1), tmp_path / "run", quiet=True
    ).model
    if task == "forecasting":
        with pytest.raises(UnsupportedError, match="those of forecasting read files"):
            Predictor(model)
        return
    texts = ["it was a joy", "it rained"]
    (output, *_) = Predictor(model)({"text": column(*texts)})["prediction"]
    predicted = model.predict(texts)[0]
    expected = {
        "text_to_speech": lambda: model.sound(predicted),
        "language_modelling": lambda: predicted.text,
    }.get(task, lambda: model.rows(predicted)[0][0])
    assert output == expected()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-m g2p-en --workers 2 cat", "--workers is for work on a cluster: add --on ray"),
        ("-m g2p-en --on ray --stream cat", "--on ray does not combine with --stream"),
        ("-m g2p-en --on ray --files f cat", "--on ray does not combine with --files"),
        ("-m g2p-en --on ray --profile cat", "--on ray does not combine with --profile"),
        ("-m g2p-en --on ray --device cuda:1 cat", "device cuda:1: Ray gives each worker a GPU of its own"),
    ],
)
def test_options_that_make_no_sense_on_a_cluster_are_refused(arguments, message, capsys):
    assert command(["predict", *arguments.split()]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_package_is_named_with_its_command_and_torchrun_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert command(["predict", "-m", "g2p-en", "--on", "ray", "cat"]) == 2
    assert "leave out torchrun" in capsys.readouterr().err
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setitem(sys.modules, "ray", None)
    for words in (["predict", "-m", "g2p-en", "--on", "ray", "cat"], ["sweep", "--preset", "g2p", "--on", "ray"]):
        assert command(words) == 2
        assert re.search(r"needs the ray package: pip install 'regard\[ray\]'", capsys.readouterr().err)
