"""What each of several processes does, with RANK, WORLD_SIZE and MASTER_PORT set."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from regard.config import load
from regard.errors import RegardError
from regard.tasks.text_to_text.model import TextToText
from regard.tasks.text_to_text.reading import read_pairs as read_data
from regard.tasks.text_to_text.trainee import PairTrainee
from regard.training import processes, train
from regard.training.processes import in_order

CONFIG = """\
data:
  train: pairs.tsv
  dev_fraction: 0.2
  source: {units: whitespace}
  target: {units: whitespace}
model:
  encoder: {size: 6, embedding_size: 4, layers: 2, dropout: 0.3}
  decoder: {size: 6, embedding_size: 4, layers: 2, dropout: 0.3}
  attention: {recipe: bahdanau, size: 4}
training: {epochs: 9, max_steps: 4, device: cpu, threads: 1, samples: 0, batch_tokens: 24, log_every: 3, \
  validate_every: 2, learning_rate: 0.01}
decoding: {beam: 2, max_length: 6}
"""
"""Batches of about five pairs."""
CHANGES = {
    "dropout": ["training.accumulation=2", "training.max_steps=6", "training.validate_every=3"],  # more than an epoch
    "feedback": ["training.scheduled_sampling=0.3", "training.sequence_teacher_forcing=0.8"],
    "single rows": ["training.batch_tokens=1", "training.accumulation=2"],
    "fsdp": ["training.sharding=fsdp", "model.decoder.tied_weights=true", "training.average_checkpoints=2"],
    "reinforce": ["model.attention={recipe: show_attend_tell, hard: true, size: 4}", "training.reinforce.weight=0.5"],
    "alignments": ["training.alignment_losses={guided_attention: 1, coverage: 1, doubly_stochastic: 0.1, entropy: 1}"],
    "no dropout": ["model.encoder.dropout=0", "model.decoder.dropout=0"],
}


BEGINS = "--- "
"""Before the name of a function, on a line of its own."""


def write(folder: Path) -> None:
    random = np.random.default_rng(0)
    texts = [" ".join(map(str, random.integers(0, 5, random.integers(1, 6)))) for _ in range(60)]
    (folder / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts))
    (folder / "small.yaml").write_text(CONFIG)


def trainee(folder: Path, overrides: list[str]) -> PairTrainee:
    config = load(folder / "small.yaml", overrides).config
    torch.manual_seed(config.seed)
    data = read_data(config.data)
    model = TextToText.build(config, data.source, data.target)
    model.module.double()
    return PairTrainee(model, data.train, data.dev)


def run(folder: Path, name: str, overrides: list[str], *, stop_after: int | None = None):
    torch.set_num_threads(1)
    own, stop = trainee(folder, overrides), threading.Event()
    if stop_after is not None:
        watch(own, stop_after, stop.set)
    config = own.config
    return own, train(own, config.training, folder / name, seed=config.seed, select="teacher_forced_loss", stop=stop)


def watch(own: PairTrainee, steps: int, action) -> None:
    """Does something in the middle of a step, in the second process only."""
    loss = own.loss

    def watched(batch, *, step, generator):
        if step == steps and processes.rank() == processes.size() - 1:
            action()
        return loss(batch, step=step, generator=generator)

    own.loss = watched


def steps_of_one(folder: Path):
    """All changes, as one process in the test makes them."""
    for name, changes in CHANGES.items():
        run(folder, f"two {name}", changes)


def resumed(folder: Path):
    for sharding in ("none", "fsdp"):
        changes = [f"training.sharding={sharding}", "training.max_steps=5", "training.validate_every=3"]
        run(folder, f"whole {sharding}", changes)
        outcome = run(folder, f"parts {sharding}", changes, stop_after=3)[1]
        assert outcome.stop_reason == "interrupted", outcome
        assert outcome.steps == 4, outcome
        run(folder, f"parts {sharding}", changes)


ACCUMULATED = ["training.accumulation=2", "training.validate_every=3", "training.average_checkpoints=2"]


def begun(folder: Path):
    """Runs that other numbers of processes continue."""
    for sharding in ("none", "fsdp"):
        run(folder, f"begun {sharding}", [*ACCUMULATED, f"training.sharding={sharding}", "training.max_steps=3"])


def continued(folder: Path):
    for sharding in ("none", "fsdp"):
        name = f"by {processes.size()} {sharding}"
        run(folder, name, [*ACCUMULATED, f"training.sharding={sharding}", "training.max_steps=7"])


def killed(folder: Path):
    own = trainee(folder, [])
    watch(own, 2, lambda: os.kill(os.getpid(), signal.SIGKILL))
    train(own, own.config.training, folder / "killed", seed=1, select="teacher_forced_loss")


def undivided(folder: Path):
    """A trainee that does not say how its batches are divided."""

    class Plain:
        def __init__(self, inner: PairTrainee) -> None:
            self.module, self.descriptions, self.batch = inner.module, inner.descriptions, inner.batch
            self.loss, self.validate, self.save = inner.loss, inner.validate, inner.save

    own = trainee(folder, [])
    train(Plain(own), own.config.training, folder / "plain", seed=1, select="teacher_forced_loss")


def signalled(folder: Path):
    """A signal to the second process stops both, and both end with its status."""
    own = trainee(folder, [])
    watch(own, 2, lambda: os.kill(os.getpid(), signal.SIGTERM))
    outcome = train(own, own.config.training, folder / "signalled", seed=1, select="teacher_forced_loss")
    print(outcome.stop_reason, outcome.steps, outcome.signal)


def broken(folder: Path):
    """A loss that is not finite in the second process alone."""
    own = trainee(folder, [])
    loss = own.loss

    def infinite(batch, *, step, generator):
        found = loss(batch, step=step, generator=generator)
        return replace(found, total=found.total * (1 if step < 2 or processes.is_first() else float("inf")))

    own.loss = infinite
    train(own, own.config.training, folder / "broken", seed=1, select="teacher_forced_loss")


def ordered(folder: Path):
    asked: list[int] = []
    told = list(in_order(count(asked, 11), square))
    assert told == ([n * n for n in range(11)] if processes.is_first() else []), told
    assert asked == (list(range(11)) if processes.is_first() else [])
    with contextlib.closing(in_order(count([], 100), square)) as some:
        told = [value for value, _ in zip(some, range(3), strict=False)]
    assert told == ([0, 1, 4] if processes.is_first() else [])
    told = []
    try:
        for value in in_order(count([], 100), fails_at_five):
            told.append(value)
    except ZeroDivisionError:
        told.append("failed")
    assert told == ([0, 1, 2, 3, 4, "failed"] if processes.is_first() else []), told
    try:
        told = list(in_order(count([], 100, broken_at=4), square))
    except RegardError as error:
        told = [type(error).__name__]
    assert told == (["DataError"] if processes.is_first() else ["ElsewhereError"]), told


def count(asked, stop, broken_at=None):
    from regard.errors import DataError

    for number in range(stop):
        if number == broken_at:
            raise DataError("pairs.tsv:5: not UTF-8")
        asked.append(number)
        yield number


def square(number):
    return number * number


def fails_at_five(number):
    return number + 0 // (5 - number)


def main(scenario: str, folder: Path) -> None:
    """Calls functions of this module one after the other, after a line with the name of each on both streams.

    A `RegardError` that ends one is printed.
    """
    with processes.joined(torch.device("cpu")):
        for name in scenario.split(","):
            for stream in (sys.stdout, sys.stderr):
                print(f"{BEGINS}{name}", file=stream, flush=True)
            try:
                globals()[name](folder)
            except RegardError as error:
                print(f"{type(error).__name__}: {error}", flush=True)
