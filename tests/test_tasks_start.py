"""What a training that starts from a model keeps of it, and what it says about that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.cli import run
from regard.config import from_preset
from regard.data.text import LetterUnits
from regard.runs.store import save
from regard.tasks import load, train
from test_tasks_defaults import syllables
from test_tasks_documents import configuration as of_documents
from test_tasks_documents import made, table
from test_tasks_trained_items import SMALL, words, written

OPEN = [setting for setting in SMALL if "training" not in setting]
QUICK = "training={max_steps: 4, validate_every: 2, samples: 0, device: cpu, threads: 1}"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a model of 60 words."""
    folder = tmp_path_factory.mktemp("base")
    written(folder / "train.tsv", words(60, 1))
    train(from_preset("g2p", [f"data.train={folder / 'train.tsv'}", *SMALL]), folder / "base")
    return folder / "base"


def test_symbols_that_the_new_data_lack_stay_known_and_new_ones_are_added(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = [(f"z{source[:3]}", f"Z {target[:5]}") for source, target in words(12, 4)]
    written(tmp_path / "few.tsv", few)
    settings = ["data.train=few.tsv", "data.dev_fraction=0.2", QUICK, f"training.start_from={base}", *OPEN]
    capsys.readouterr()
    assert run(["data", "check", "--preset", "g2p", *(w for s in settings for w in ("--set", s))]) == 0
    checked = capsys.readouterr().out
    train(from_preset("g2p", settings), "next")
    shown = capsys.readouterr().err
    for text in (checked, shown):
        assert "source: 8 of 9 symbols are known; new: z" in text
        assert "target: 8 of 9 symbols are known; new: Z" in text
    model = load("next", device="cpu")
    assert model.source.vocabulary.symbols == (*load(base, device="cpu").source.vocabulary.symbols, "z")
    assert not any(prediction.warnings for prediction in model.predict([source for source, _ in words(60, 1)]))


def test_few_new_data_take_a_quarter_of_steps_and_rate_and_many_those_from_scratch(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "few.tsv", words(20, 2))
    written(tmp_path / "many.tsv", words(60, 3))

    def plan(name: str, *settings: str) -> str:
        capsys.readouterr()
        overrides = [f"data.train={name}", "data.dev_fraction=0.2", *OPEN, *settings]
        assert run(["data", "check", "--preset", "g2p", *(w for s in overrides for w in ("--set", s))]) == 0
        return capsys.readouterr().out

    def epochs(text: str) -> int:
        return int(text.split("training.epochs=")[1].split(",")[0])

    start = f"training.start_from={base}"
    assert epochs(plan("few.tsv", start)) == round(epochs(plan("few.tsv")) / 4)
    assert "training.learning_rate=0.0005" in plan("few.tsv", start)
    assert epochs(plan("many.tsv", start)) == epochs(plan("many.tsv"))
    assert "learning_rate=" not in plan("many.tsv", start)
    assert "warning: training.learning_rate=0.002 is as high as" in plan(
        "few.tsv", start, "training.learning_rate=0.002"
    )
    assert "is as high as" not in plan("few.tsv", start, "training.learning_rate=0.0001")
    model = load(base, device="cpu")
    model.trained_items = None
    save(model, "copy")
    start = "training.start_from=copy"
    assert "training.learning_rate=0.0005" in plan("many.tsv", start), "nobody knows how many it was trained on"


def test_a_start_has_the_sizes_of_the_model_and_its_run_resumes(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "few.tsv", words(12, 2))
    small = [setting.replace("size: 8, ", "") for setting in OPEN]  # sizes are left open
    settings = ["data.train=few.tsv", "data.dev_fraction=0.2", QUICK, f"training.start_from={base}", *small]
    train(from_preset("g2p", settings), "next")
    assert "not copied" not in capsys.readouterr().err
    model = load("next", device="cpu")
    assert model.config.model.encoder.size == model.config.model.decoder.size == 8
    longer = from_preset("g2p", [*settings, "training.max_steps=6"])
    assert train(longer, "next").steps == 6
    train(longer, "whole")
    assert load("next", device="cpu").source.vocabulary == load("whole", device="cpu").source.vocabulary


def test_a_start_has_the_units_of_the_model(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = [f"data.train={syllables(tmp_path / 'few.tsv')}", "data.dev_fraction=0.3", QUICK, *OPEN]
    train(from_preset("g2p", settings), "divided")
    assert load("divided", device="cpu").config.data.source.units == "letter"
    train(from_preset("g2p", [*settings, f"training.start_from={base}"]), "next")
    assert load("next", device="cpu").config.data.source.units == "character"
    written(tmp_path / "letters.tsv", words(60, 1))
    settings[0] = "data.train=letters.tsv"
    train(from_preset("g2p", [*settings, "training.start_from=divided"]), "letters")
    assert isinstance(load("letters", device="cpu").source.units, LetterUnits)


def test_labels_of_documents_keep_their_weights_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base_folder = tmp_path / "first"
    base_folder.mkdir()
    train(of_documents(base_folder), tmp_path / "base")
    again = tmp_path / "second"
    again.mkdir()
    others = {"good": "alone", "bad": "good"}  # "bad" is gone, "alone" comes before the others
    table(again / "dev.csv", [(others[label], text) for label, text in made(6, 6)])
    table(again / "train.csv", [(others[label], text) for label, text in made(24, 5)])
    configuration = of_documents(again)
    training = configuration.config.training.model_copy(update={"start_from": tmp_path / "base", "epochs": 0})
    start = replace(configuration, config=configuration.config.model_copy(update={"training": training}))
    train(start, tmp_path / "next")
    assert "labels: 2 of 3 are known; new: alone" in capsys.readouterr().err
    before, after = load(tmp_path / "base", device="cpu"), load(tmp_path / "next", device="cpu")
    assert before.labels.names == ("bad", "good")
    assert after.labels.names == ("bad", "good", "alone")
    for name in ("weight", "bias"):
        assert torch.equal(getattr(after.module.head, name)[:2], getattr(before.module.head, name))
