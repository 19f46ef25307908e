"""Warnings about a training that goes wrong: given where they help, once, and not otherwise."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from regard.data.text import synthetic
from regard.tasks import TextToText, train
from regard.tasks.text_generation.trainee import alignment_figures, highest_focus
from regard.training import Validation
from regard.training import train as run_loop
from regard.training.diagnosis import Diagnosis
from test_tasks import configuration, trained
from training_toy import ToyTrainee, config


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def shown(folder: Path, trainee: ToyTrainee | None = None, **changes: Any) -> str:
    settings, text = config(**changes), StringIO()
    console = Console(file=text, width=1000)
    run_loop(trainee or ToyTrainee(settings), settings, folder, seed=1, select="teacher_forced_loss", console=console)
    return text.getvalue()


def test_the_time_that_is_left_is_told_once_it_is_known(tmp_path: Path) -> None:
    text = shown(tmp_path / "long", epochs=16, validate_every=56)
    assert text.index("validation  step 56") < text.index("Less than a minute to go")
    assert "to go" not in shown(tmp_path / "short", epochs=8, validate_every=56)


def test_the_time_of_validations_that_are_to_come_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(ToyTrainee):
        def validate(self) -> Validation:
            clock.offset += 600.0
            return super().validate()

    class Clock:
        offset = 0.0

        def __call__(self) -> float:
            return self.offset

    clock = Clock()
    monkeypatch.setattr("regard.training.run.time.perf_counter", clock)
    settings = config(epochs=16, validate_every=28)  # validations after 28, 56, 84 and 112 of 112 steps
    text = shown(tmp_path / "run", Slow(settings), epochs=16, validate_every=28)
    assert "About 20 minutes to go" in text
    assert "About 10 minutes to go" in text


def figures(loss: float, focus: float) -> dict[str, float]:
    return {"teacher_forced_loss": loss, "focus_rate": focus}


def test_attention_that_stays_spread_while_the_loss_falls_is_told_once() -> None:
    diagnosis = Diagnosis()
    told = [diagnosis.observe(figures(3.0 * 0.8**n, 0.25 + 0.01 * (n % 2))) for n in range(9)]
    assert [len(one) for one in told] == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert "the alignment does not form: its focus rate was 0.25" in told[5][0]


@pytest.mark.parametrize(
    "history",
    [
        [(3.0 * 0.8**n, 0.25 + 0.02 * n) for n in range(9)],  # it forms
        [(3.0, 0.25)] * 9,  # nothing is learnt yet
        [(3.0 * 0.8**n, 0.9) for n in range(9)],  # it was there before the first validation
        [(3.0 * 0.8**n, None) for n in range(9)],  # there is no attention
    ],
)
def test_attention_is_not_complained_of_where_nothing_is_wrong(history: list[tuple[float, float | None]]) -> None:
    diagnosis = Diagnosis()
    for loss, focus in history:
        found = figures(loss, 0.0 if focus is None else focus)
        assert diagnosis.observe(found if focus is not None else {"teacher_forced_loss": loss}) == []


def test_attention_that_stays_on_few_positions_while_the_loss_falls_is_told_once() -> None:
    diagnosis = Diagnosis()
    told = [diagnosis.observe(figures(3.0 * 0.8**n, 0.99) | {"relative_coverage": 0.2}) for n in range(9)]
    assert [len(one) for one in told] == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert "20% of as many as there could be" in told[5][0]
    sound = Diagnosis()
    for n in range(9):
        assert sound.observe(figures(3.0 * 0.8**n, 0.99) | {"relative_coverage": 0.2 if n else 0.9}) == []


@pytest.mark.parametrize(
    ("alignment", "coverage"),
    [
        ([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]], 1.0),  # no step looks where another has
        ([[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]], 0.5),
        ([[1.0, 0.0]] * 8, 0.5),
        ([[0.25] * 4] * 2, 1.0),
    ],
)
def test_relative_coverage_is_a_share_of_what_the_steps_can_cover(alignment: Any, coverage: float) -> None:
    prediction = SimpleNamespace(alignment=torch.tensor(alignment))
    assert alignment_figures([prediction])["relative_coverage"] == pytest.approx(coverage)  # type: ignore[list-item]


def test_a_sharp_head_is_an_alignment_though_the_mean_of_heads_is_spread() -> None:
    sharp, spread = torch.eye(4), torch.full((4, 4), 0.25)
    predictions = [SimpleNamespace(alignments={"cross.0": torch.stack([spread, sharp]), "cross.1": spread[None]})] * 2
    assert highest_focus(predictions) == 1.0  # type: ignore[arg-type]
    assert highest_focus([SimpleNamespace(alignments={"attention": spread[None]})]) is None  # type: ignore[list-item]
    assert highest_focus([SimpleNamespace(alignments={})]) is None  # type: ignore[list-item]
    for focus, warnings in ((1.0, 0), (0.25, 1)):
        diagnosis = Diagnosis()
        told = [diagnosis.observe(figures(3.0 * 0.8**n, 0.4), focus=focus) for n in range(9)]
        assert sum(map(len, told)) == warnings


@pytest.mark.parametrize("crippled", [True, False])
def test_a_model_whose_attention_is_crippled_is_told_of_and_a_sound_one_is_not(
    tmp_path: Path, crippled: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = list(synthetic.generate("copy", 300, max_length=6, num_symbols=5, seed=1))
    synthetic.write(tmp_path / "pairs.tsv", pairs)
    synthetic.write(tmp_path / "dev.tsv", synthetic.generate("copy", 20, max_length=6, num_symbols=5, seed=2))
    build = TextToText.build

    def cripple(*args: Any, **kwargs: Any) -> TextToText:
        model = build(*args, **kwargs)
        weight = model.module.decoder.attention.score.v
        torch.nn.init.zeros_(weight).requires_grad_(False)
        return model

    if crippled:
        monkeypatch.setattr(TextToText, "build", cripple)
    train(
        configuration(
            tmp_path, warmup_steps=0, validate_every=None, epochs=8, learning_rate=0.02, schedule="constant", samples=0
        ),
        tmp_path / "run",
    )
    assert ("the alignment does not form" in capsys.readouterr().err) == crippled


@pytest.mark.parametrize(("text", "said"), [("", "is empty for all"), ("0 0", "held-out inputs: '0 0'")])
def test_a_saved_model_that_says_nothing_or_always_the_same_is_told_of(
    tmp_path: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    predict = TextToText.predict

    def dumb(model: TextToText, inputs: Any, **options: Any) -> Any:
        from dataclasses import replace

        return [
            replace(one, text=text, tokens=text.split(), stop_reason="length")
            for one in predict(model, inputs, **options)
        ]

    monkeypatch.setattr(TextToText, "predict", dumb)
    trained(tmp_path, warmup_steps=0, validate_every=None, samples=0)
    error = capsys.readouterr().err
    assert error.count(said) == 1
    assert "It has not learned the task" in error


def test_a_model_that_says_different_things_is_not_told_of(tmp_path: Path) -> None:
    text = shown(tmp_path, ToyTrainee(config()), epochs=1)
    assert "has not learned" not in text
    assert Validation({}).concern is None
