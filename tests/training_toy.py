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
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from regard.config.schema import TrainingConfig
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
    def __init__(self, config: TrainingConfig, *, dropout: float = 0.3, record: Path | None = None) -> None:
        torch.manual_seed(0)
        self.config, self.record = config, record
        self.module = Toy(dropout)
        start = np.random.default_rng(0).integers(1, SYMBOLS, ITEMS)
        self.items = torch.from_numpy(((start[:, None] + 2 * np.arange(STEPS)) % (SYMBOLS - 1) + 1).astype(np.int64))
        self.lengths = np.random.default_rng(1).integers(2, STEPS + 1, ITEMS)
        self.validations = 0

    def plan(self, epoch: int) -> list[np.ndarray]:
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
        return Loss(
            total, int(real.sum()), {"fed_back": drawn, "correct": ((logits.argmax(-1) == targets) & real).sum()}
        )

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
        save_file(
            {name: value.contiguous() for name, value in self.module.state_dict().items()}, folder / "model.safetensors"
        )


def config(**changes: object) -> TrainingConfig:
    return TrainingConfig(
        **{
            "epochs": 4, "learning_rate": 0.01, "device": "cpu", "log_every": 3, "threads": 1, "plateau_patience": 0,
            "save_every_minutes": 1e-6, **changes,
        }
    )  # fmt: skip


def attempt(folder: Path, settings: TrainingConfig, delay: float | None) -> None:
    if delay is not None:
        threading.Thread(target=lambda: (time.sleep(delay), os.kill(os.getpid(), signal.SIGKILL)), daemon=True).start()
    trainee = ToyTrainee(settings, record=folder.with_suffix(".record"))
    train(trainee, settings, folder, seed=3, select="teacher_forced_loss")


def main(folder: Path, kills: int, seed: int, changes: dict[str, object]) -> None:
    delays = random.Random(seed)
    killed = 0
    while True:
        # Delays grow with the kills, so that also a slow machine gets to its end.
        delay = delays.uniform(0.02, 0.15 + 0.05 * killed) if killed < kills else None
        child = os.fork()
        if child == 0:
            attempt(folder, config(**changes), delay)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            print(json.dumps({"killed": killed, "status": status}))
            return
        killed += 1


if __name__ == "__main__":
    pairs = (argument.split("=", 1) for argument in sys.argv[4:])
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), {key: json.loads(value) for key, value in pairs})
