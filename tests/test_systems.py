"""Whole runs through the command line: a task is learned, a killed training continues as if nothing had happened."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.cli import run
from regard.data.text import synthetic
from support.forked import Started, run_command

CONFIG = """\
data:
  train: train.tsv
  dev: dev.tsv
  source: {units: whitespace}
  target: {units: whitespace}
model:
  encoder: {cell: gru, size: 48, embedding_size: 24, dropout: 0.1}
  decoder: {cell: gru, size: 48, embedding_size: 24, dropout: 0.1, input_feeding: false}
  attention: {recipe: luong}
training:
  epochs: 6
  batch_tokens: 512
  learning_rate: 0.01
  schedule: cosine
  warmup_steps: 20
  label_smoothing: 0.0
  threads: 1
  samples: 1
  device: cpu
decoding: {beam: 2}
"""


def write_run(folder: Path, *, pairs: int) -> None:
    """A configuration and its files: reversing 1 to 6 of 8 symbols."""
    train = list(synthetic.generate("reverse", pairs, max_length=6, num_symbols=8, seed=1))
    held_out = list(synthetic.generate("reverse", 400, max_length=6, num_symbols=8, seed=2))
    synthetic.write(folder / "train.tsv", train)
    synthetic.write(folder / "dev.tsv", [pair for pair in held_out if pair not in set(train)][:100])
    (folder / "run.yaml").write_text(CONFIG, encoding="utf-8")


def command(output: str, *overrides: str) -> list[str]:
    options = [part for override in overrides for part in ("--set", override)]
    return ["train", "run.yaml", "--output", output, *options]


def started(folder: Path, output: str, *overrides: str) -> Started:
    return Started.of(run_command, folder, command(output, *overrides), folder=folder)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The log without what a clock says."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "timing"} for line in lines]


def test_a_small_task_is_learned_and_looked_at(tmp_path: Path) -> None:
    write_run(tmp_path, pairs=4000)
    ended = started(tmp_path, "run").end()
    assert ended.status == 0, ended.err
    model = regard.load(tmp_path / "run")
    assert model.evaluate(tmp_path / "dev.tsv").metrics["sequence_error_rate"] <= 0.05
    prediction = model.predict(["1 2 3 4 5"])[0]
    assert prediction.text == "5 4 3 2 1"
    assert prediction.alignment[:5].argmax(1).tolist() == [4, 3, 2, 1, 0], "it looks at what it says"


def test_training_killed_at_random_moments_is_byte_for_byte_the_uninterrupted_one(tmp_path: Path) -> None:
    write_run(tmp_path, pairs=400)
    overrides = (
        "training.epochs=4",
        "training.validate_every=7",
        "training.log_every=1",
        "training.save_every_minutes=0.002",
        "training.scheduled_sampling=0.2",
        "training.accumulation=2",
        "training.average_checkpoints=2",
        "training.schedule=plateau",
    )
    assert started(tmp_path, "whole", *overrides).end().status == 0
    whole = metrics(tmp_path / "whole")
    moments, kills = random.Random(0), 0
    for _ in range(60):
        process = started(tmp_path, "killed", *overrides)
        log = tmp_path / "killed" / "metrics.jsonl"
        goal = (len(log.read_bytes().splitlines()) if log.exists() else 0) + moments.randint(1, 8)
        while process.is_running() and kills < 4:
            if log.exists() and len(log.read_bytes().splitlines()) >= goal:
                time.sleep(moments.random() * 0.02)
                process.send(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.002)
        ended = process.end()
        if ended.status == 0:
            break
        assert ended.status == -signal.SIGKILL, ended.err
    else:
        pytest.fail("The run never ended.")
    assert kills >= 2
    assert metrics(tmp_path / "killed") == whole
    for name in ("model.safetensors", "config.yaml", "source.json", "target.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_the_same_command_continues(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    status: int,
) -> None:
    """It continues in this process: that a new one does, too, is tested above."""
    write_run(tmp_path, pairs=200)
    overrides = ("training.epochs=3", "training.log_every=1", "model.encoder.size=8", "model.decoder.size=8")
    process = started(tmp_path, "run", *overrides)
    log = tmp_path / "run" / "metrics.jsonl"
    while process.is_running() and not (log.exists() and log.read_bytes().count(b"\n") >= 2):
        time.sleep(0.002)
    process.send(number)
    ended = process.end()
    if ended.status == 0:
        pytest.skip("The run ended before the signal arrived.")
    assert ended.status == status
    assert "the same command continues" in ended.err
    monkeypatch.chdir(tmp_path)
    arguments = command("run", *overrides)
    assert run(arguments) == 0
    assert "continuing after step" in capsys.readouterr().err
    assert run(arguments) == 0
    assert "has already ended" in capsys.readouterr().err
