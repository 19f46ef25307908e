"""A tiny trainee: a recurrent network with dropout that continues sequences of integers under scheduled sampling.

Run as a program it trains again and again, each time in a forked process that may be killed, until a run ends:

    python training_toy.py FOLDER KILLS SEED [key=value ...]
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from regard.tasks.text_to_text.config import TextTrainingConfig
from regard.training import Loss, Validation, feedback_mask, train

SYMBOLS, ITEMS, STEPS = 7, 40, 6


class Toy(nn.Module):
    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 8)
        self.cell = nn.GRUCell(8, 12)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(12, SYMBOLS)

    def forward(self, targets: torch.Tensor, fed_back: torch.Tensor | None) -> torch.Tensor:
        state = torch.zeros(len(targets), 12)
        previous = torch.zeros(len(targets), dtype=torch.long)
        outputs = []
        for t in range(targets.shape[1]):
            state = self.cell(self.dropout(self.embedding(previous)), state.to(self.embedding.weight.dtype))
            outputs.append(self.output(self.dropout(state)))
            previous = targets[:, t]
            if fed_back is not None and t + 1 < targets.shape[1]:
                previous = torch.where(fed_back[:, t + 1], outputs[-1].argmax(-1), previous)
        return torch.stack(outputs, 1)


class ToyTrainee:
    def __init__(self, config: TextTrainingConfig, *, dropout: float = 0.3, record: Path | None = None) -> None:
        torch.manual_seed(0)
        self.config, self.record = config, record
        self.module = Toy(dropout)
        start = np.random.default_rng(0).integers(1, SYMBOLS, ITEMS)
        self.items = torch.from_numpy(((start[:, None] + 2 * np.arange(STEPS)) % (SYMBOLS - 1) + 1).astype(np.int64))
        self.lengths = np.random.default_rng(1).integers(2, STEPS + 1, ITEMS)
        self.validations = 0

    def descriptions(self, epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng((5, epoch)).permutation(ITEMS)
        return np.array_split(order, 7)

    def batch(self, description: np.ndarray) -> dict[str, torch.Tensor]:
        real = torch.arange(STEPS) < torch.from_numpy(self.lengths[description])[:, None]
        return {"targets": self.items[description], "real": real}

    def loss(self, batch: dict[str, torch.Tensor], *, step: int, generator: torch.Generator) -> Loss:
        targets, real = batch["targets"], batch["real"]
        fed_back = feedback_mask(self.config, len(targets), STEPS, step=step, generator=generator)
        logits = self.module(targets, fed_back)
        losses = nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
        total = (losses * real.flatten()).sum()
        drawn = 0.0 if fed_back is None else float(fed_back.sum())
        if self.record is not None:
            with self.record.open("a") as file:
                file.write(json.dumps([step, targets[:, 0].tolist(), drawn, total.item()]) + "\n")
        correct = ((logits.argmax(-1) == targets) & real).sum()
        return Loss(total, int(real.sum()), {"fed_back": drawn, "correct": correct})

    def validate(self) -> Validation:
        assert not self.module.training
        assert not torch.is_grad_enabled()
        torch.rand(3), random.random(), np.random.rand()
        self.validations += 1
        everywhere = torch.ones_like(self.items, dtype=torch.bool)
        outputs = self.module(self.items, everywhere).argmax(-1)
        forced = nn.functional.cross_entropy(self.module(self.items, None).flatten(0, 1), self.items.flatten())
        return Validation(
            metrics={
                "symbol_error_rate": (outputs[:, 1:] != self.items[:, 1:]).double().mean().item(),
                "teacher_forced_loss": forced.item(),
            },
            samples=[f"[{i}] {row.tolist()}" for i, row in enumerate(outputs[:6])],
            pictures=[(f"{i}.txt", lambda path, i=i: path.write_text(f"picture {i}")) for i in range(6)],
        )

    def save(self, folder: Path) -> None:
        (folder / "vocabularies").mkdir()
        (folder / "vocabularies" / "target.txt").write_text("abc")
        (folder / "config.yaml").write_text("task: toy\n")
        save_file(dict(self.module.state_dict()), folder / "model.safetensors")


def config(**changes: object) -> TextTrainingConfig:
    values: dict[str, object] = {
        "epochs": 4, "learning_rate": 0.01, "device": "cpu", "log_every": 3, "threads": 1, "schedule": "plateau",
        "average_checkpoints": 0, "save_every_minutes": 60.0, **changes,
    }  # fmt: skip
    if values["schedule"] == "plateau":
        values.setdefault("plateau_patience", 0)
    return TextTrainingConfig(**values)


def kill_at(moment: int | None, delay: float | None) -> None:
    """Kills this process when the disk is touched or a loss computed for the nth time, or some time after the first."""
    passed = 0

    def watch(function: Callable[..., object]) -> Callable[..., object]:
        def watched(*args: object, **kwargs: object) -> object:
            nonlocal passed
            passed += 1
            if passed == 1 and delay is not None:
                threading.Thread(target=lambda: (time.sleep(delay), kill()), daemon=True).start()
            if passed == moment:
                kill()
            return function(*args, **kwargs)

        return watched

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    for place, name in (
        (os, "fsync"), (os, "replace"), (os, "unlink"), (os, "rmdir"), (ToyTrainee, "loss"), (ToyTrainee, "validate"),
    ):  # fmt: skip
        setattr(place, name, watch(getattr(place, name)))


def leave_the_disk_alone() -> None:
    """Spares the time of waiting for the disk: what is written outlives a process, if not a power failure."""
    os.fsync = lambda handle: None


def main(folder: Path, kills: int, seed: int, changes: dict[str, object]) -> None:
    draw = random.Random(seed)
    torch.optim.AdamW([nn.Parameter(torch.zeros(1))])  # imports what takes long, once for all attempts
    killed = 0
    while True:
        moment, delay = (draw.randint(1, 40), None) if killed % 2 else (None, draw.uniform(0.0, 0.05))
        child = os.fork()
        if child == 0:
            leave_the_disk_alone()
            if killed < kills:
                kill_at(moment, delay)
            settings = config(**changes)
            trainee = ToyTrainee(settings, record=folder.with_suffix(".record"))
            train(trainee, settings, folder, seed=3, select="teacher_forced_loss")
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            print(json.dumps({"killed": killed, "status": status}))
            return
        killed += 1


if __name__ == "__main__":
    pairs = (argument.split("=", 1) for argument in sys.argv[4:])
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), {key: json.loads(value) for key, value in pairs})
