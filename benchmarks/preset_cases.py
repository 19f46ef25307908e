"""What a user waits for, as cases that two versions of regard can be asked for: training steps, searches, free runs.

Every case goes through configurations and models as `regard train` and `regard predict` do, so that it stays the same
when the modules below change.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from preset_data import DATA, constant, path_of

STEPS = 4
"""The batches of a training case, from all parts of an epoch, so that they have all lengths."""
SMALL = {"small/B16-T20-D128": (16, 20, 128), "small/B8-T100-D256": (8, 100, 256), "small/B64-T20-D256": (64, 20, 256)}
ROWS = (1, 16, 64)
LENGTH = 20
"""The symbols of every output of a search, for weights are random."""
SEARCHED = ("text-to-text", "translation-rnn", "translation-transformer", "copying", "captioning")
NAMES = [
    *(f"train/{preset}" for preset in sorted(DATA)),
    *SMALL,
    *(f"search/{preset}/beam-{beam}/rows-{rows}" for preset in SEARCHED for beam in (1, 5) for rows in ROWS),
    *(f"free-run/speech/rows-{rows}" for rows in (1, 16)),
    *(f"free-run/language-model/rows-{rows}" for rows in (1, 16)),
]

Job = tuple[Callable[[], object], int]
"""A call, and how many steps it makes."""


def builder(preset: str | Path, data: Path, **settings: object) -> Callable[..., tuple[Any, Any]]:
    """Reads the data of a preset or of a configuration; what it returns makes the untrained model and its trainee.

    Keyword arguments of that are keys of the section `training`, beside those that the data decide.
    """
    from regard.config import from_preset, load
    from regard.tasks import TASKS

    overrides = {"data.train": data, "training.device": "cpu", **settings}
    read = load if isinstance(preset, Path) else from_preset
    config = read(preset, [f"{key}={value}" for key, value in overrides.items()]).config
    task = TASKS[config.task]
    material = task.read(config)
    check = task.checked if hasattr(task, "checked") else task.check
    resolved = task.resolve(config, material, check(config, material)).config

    def build(**training: object) -> tuple[Any, Any]:
        torch.manual_seed(config.seed)
        section = resolved.training.model_copy(update=training)
        model = task.build(resolved.model_copy(update={"training": section}), material, name=str(preset))
        return model, task.trainee(model, material)

    return build


def built(preset: str, data: Path, **settings: object) -> tuple[Any, Any]:
    """The untrained model of a preset and its trainee, with the keys that the data decide."""
    return builder(preset, data, **settings)()


class Training:
    """Optimiser steps on `count` batches that are spread over an epoch, on the configured device.

    Args:
        model, trainee: as `built` returns them; the model is moved to the device.
    """

    def __init__(self, model: Any, trainee: Any, count: int) -> None:
        from regard.training.accumulation import LocalBatch
        from regard.training.step import Stepper

        training = model.config.training
        device = torch.device(training.device)
        self.module, self.learning_rate = model.module.to(device), training.learning_rate
        self.stepper = Stepper(trainee, training, device)
        descriptions = trainee.descriptions(0)
        chosen = [descriptions[i * len(descriptions) // count] for i in range(count)]
        self.batches = [(LocalBatch(description), trainee.batch(description)) for description in chosen]
        self.generator = torch.Generator().manual_seed(1)

    def __call__(self) -> list[Any]:
        """Makes the steps and returns their figures: sums of the loss and the number of symbols."""
        self.module.train()
        known: list[Any] = []
        for step, batch in enumerate(self.batches):
            rate = self.learning_rate
            figures = self.stepper([batch], step=step, learning_rate=rate, generator=self.generator)
            known += figures if isinstance(figures, list) else [figures]  # older versions return one
        return known + (self.stepper.read() if hasattr(self.stepper, "read") else [])


@lru_cache(maxsize=1)
def searched(preset: str, data: Path, device: str) -> Any:
    """The model of a preset, whose outputs all have the same length."""
    lengths = {"decoding.max_length": LENGTH, "decoding.min_length": LENGTH}
    if preset == "speech":
        lengths = {"decoding.stop_threshold": 0.9999, "decoding.max_frames_per_unit": 5}
    elif preset == "language-model":
        lengths = {"decoding.max_length": 100}
    model, _ = built(preset, data, **lengths)
    model.module.to(device).eval()
    return model


def job(name: str, folder: Path, device: str = "cpu") -> Job:
    """The call of a case; the device is that of searches and free runs."""
    kind, preset, *rest = name.split("/")
    if name in SMALL:
        rows, length, size = SMALL[name]
        data = constant(folder, 4 * STEPS * rows, length - 1, length - 1)
        settings = {"model.encoder.size": size, "model.decoder.size": size, "model.attention.size": size}
        settings |= {"model.encoder.dropout": 0, "model.decoder.dropout": 0, "data.source.units": "whitespace"}
        settings |= {"data.target.units": "whitespace", "training.batch_tokens": rows * 2 * length}
        return Training(*built("text-to-text", data, **settings), STEPS), STEPS
    data = path_of(preset, folder)
    if kind == "train":
        return Training(*built(preset, data), STEPS), STEPS
    model = searched(preset, data, device)
    with data.open(encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line, _ in zip(file, range(int(rest[-1].removeprefix("rows-"))))]
    if preset == "speech":
        inputs = [line.split("|")[1] for line in lines]
    elif preset == "language-model":
        inputs = [line[:20] for line in lines]
    else:
        sources = [line.partition("\t")[0] for line in lines]
        inputs = [model.read(str(folder / source) if preset == "captioning" else source) for source in sources]
        search = model.config.decoding.replace(beam=int(rest[0].removeprefix("beam-")))
        return lambda: model.predict(inputs, alignment=False, search=search), 1
    return lambda: model.predict(inputs, alignment=False), 1


def losses(preset: str, folder: Path, count: int = 50) -> list[float]:
    """The losses of the first steps of a training by plain gradient descent.

    Adam divides small gradients by their own size, so that what is rounded differently grows to 1e-3 in 50 steps.
    """
    gc.collect()

    def descent(weights: Any, **options: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(weights, lr=0.01)

    with patch.multiple("regard.training.step", Adam=descent, AdamW=descent):
        training = Training(*built(preset, path_of(preset, folder)), count)
        return [figures.loss / figures.count for figures in training()]
