"""THE LIST of tasks: for each a little data, a small configuration, and something to predict."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from regard.data.text import synthetic
from regard.runs.contract import TASKS

if TYPE_CHECKING:
    import pytest  # benchmarks do without

LOOP = {"max_steps": 4, "epochs": 4, "validate_every": 2, "log_every": 1, "samples": 0, "device": "cpu", "threads": 1}


@dataclass(frozen=True)
class Case:
    """A task at its smallest.

    Args:
        write: writes the data into a folder, `held_out` among them.
        sections: the configuration without `task` and the loop; paths are relative to the folder.
        inputs: arguments of `regard predict`; the last of several may be longer than the others.
        held_out: the file that `regard evaluate` is given.
        open: keys that the data decide here, among others.
    """

    write: Callable[[Path], None]
    sections: dict[str, dict[str, Any]]
    inputs: Sequence[str]
    held_out: str = "test.tsv"
    training: dict[str, Any] = field(default_factory=dict)
    open: Sequence[str] = ("training.warmup_steps",)


def interrupt(monkeypatch: pytest.MonkeyPatch, task: str, *steps: int) -> None:
    """Sends the interrupt of a keyboard to a task's training when it first reaches each of these steps."""
    stops, made = list(steps), TASKS[task].trainee

    def trainee(model: Any, material: Any) -> Any:
        trainee = made(model, material)
        compute = trainee.loss

        def loss(batch: Any, *, step: int, generator: Any) -> Any:
            if stops and step == stops[0]:
                stops.pop(0)
                os.kill(os.getpid(), signal.SIGINT)
            return compute(batch, step=step, generator=generator)

        trainee.loss = loss
        return trainee

    monkeypatch.setattr(TASKS[task], "trainee", trainee, raising=False)


def pairs(folder: Path) -> None:
    for name, count, seed in (("train", 40, 1), ("dev", 6, 2), ("test", 6, 3)):
        generated = synthetic.generate("reverse", count, max_length=5, num_symbols=5, seed=seed)
        synthetic.write(folder / f"{name}.tsv", generated)


def documents(folder: Path) -> None:
    """Tables of texts with their labels; one sentence says the label."""
    told = {"good": "It was a joy.", "bad": "A waste of money."}
    rest = ["The bus was late.", "It rained all day!", "We sat by the window."]
    for name, count in (("train", 24), ("dev", 6), ("test", 6)):
        rows = [(label, f"{rest[i % 3]} {told[label]} {rest[i % 2]}") for i in range(count) for label in told]
        lines = [f"{label},{text} {name}\n" for label, text in rows]
        (folder / f"{name}.csv").write_text("label,text\n" + "".join(lines), encoding="utf-8")


def running_text(folder: Path) -> None:
    for name, lines in (("train", 60), ("test", 4)):
        text = "".join(f"the {'quick' * (i % 3)} fox {i * 7919 % 100} jumps\n" for i in range(lines))
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def series(folder: Path) -> None:
    """Hours of two targets; the last file has missing values."""
    for name, rows, first in (("train", 120, 0), ("test", 40, 200), ("long", 60, 0)):
        lines = ["time,a,b"]
        for hour in range(first, first + rows):
            a = "" if name == "long" and hour % 7 == 3 else f"{5 + 3 * math.sin(hour / 4) + 0.1 * (hour * 7 % 11):.3f}"
            lines.append(f"2024-01-{1 + hour // 24:02} {hour % 24:02}:00,{a},{math.cos(hour / 4):.3f}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def tagged(folder: Path) -> None:
    days = ["the first day of May", "May 3", "on May 14 or June 2", "no day at all", "June"]
    for name, count in (("train", 30), ("dev", 5), ("test", 7)):
        lines = []
        for number in range(count):
            words = f"{days[number % 5]} {name} {number}".split()
            lines += [f"{word}\t{'B-month' if word in ('May', 'June') else 'O'}" for word in words] + [""]
        (folder / f"{name}.tsv").write_text("\n".join(lines), encoding="utf-8")


def recordings(folder: Path) -> None:
    """Tables of sentences, a few seconds of made sound, and when each letter is heard."""
    from regard.audio import synthetic_speech, write_wave

    texts = {"train": ["a sea", "see a bee", "an ode", "lose it", "one more", "so it is", "no one", "a bean", "be so"]}
    texts |= {"dev": ["so bees", "is a one"], "test": ["ease in", "a rose", "more"]}
    (folder / "wavs").mkdir()
    labels = ["id\tindex\tstart\tend\tletter"]
    for part, sentences in texts.items():
        lines = []
        for number, text in enumerate(sentences):
            name, speech = f"{part}-{number}", synthetic_speech(text, seed=number, silence=0.03)
            write_wave(folder / "wavs" / f"{name}.wav", speech.samples, speech.sample_rate)
            lines.append(f"{name}|{text.title()}|{text}\n")
            times = enumerate(zip(text, speech.intervals, strict=True))
            labels += [f"{name}\t{index}\t{start:.4f}\t{end:.4f}\t{c}" for index, (c, (start, end)) in times]
        (folder / f"{part}.csv").write_text("".join(lines), encoding="utf-8")
    (folder / "letters.tsv").write_text("\n".join(labels) + "\n", encoding="utf-8")


def drawn(folder: Path) -> None:
    """Tables of a bar or two in a picture, and handwriting in a file of InkML."""
    from PIL import Image

    texts = ["one", "one two", "two", "two one", "one one"]
    for name, count in (("train", 30), ("dev", 6), ("test", 5)):
        lines = []
        for number in range(count):
            text = texts[number % 5]
            pixels = np.full((9 + number % 4, 12 * len(text.split()) + number % 3, 1), 255, np.uint8)
            for place, word in enumerate(text.split()):
                height, width = (7, 5) if word == "one" else (4, 10)
                ink = number + 40 * (name == "test")  # other pictures than those of the training
                pixels[2:height, 12 * place + 3 : 12 * place + width] = ink
            Image.fromarray(pixels[..., 0]).save(folder / f"{name}-{number}.png")
            lines.append(f"{name}-{number}.png\t{text}\n")
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    ink = "<ink><trace>0 0, 0 40</trace><trace>30 0, 30 40</trace></ink>"
    (folder / "two.inkml").write_text(ink, encoding="utf-8")


TASK_CASES = {
    "image_to_text": Case(
        drawn,
        {
            "data": {
                "train": "train.tsv",
                "dev": "dev.tsv",
                "target": {"units": "whitespace"},
                "augmentation": {"pictures": {"rotation": 5.0}},
            },
            "model": {
                "encoder": {"widths": [4, 8], "depths": [1, 1]},
                "decoder": {"size": 8, "embedding_size": 6, "order": "attend_then_recur"},
                "attention": {"recipe": "plane_coverage", "size": 8, "num_filters": 2, "kernel_size": 3},
            },
        },
        ["train-0.png", "two.inkml", "train-1.png"],
        training={"batch_pixels": 2_000, "allow_trained_dev": True},
        open=("training.warmup_steps", "decoding.max_length"),
    ),
    "labelling": Case(
        tagged,
        {
            "data": {"train": "train.tsv", "dev": "dev.tsv"},
            "model": {"encoder": {"size": 8, "embedding_size": 6, "layers": 1}, "attention": {"size": 8}},
        },
        ["May 3", "June", "on May 14 or June 2 or never"],
        training={"batch_tokens": 60},
    ),
    "text_to_text": Case(
        pairs,
        {
            "data": {"train": "train.tsv", "dev": "dev.tsv", "source": {"units": "whitespace"}},
            "model": {
                "encoder": {"size": 8, "embedding_size": 6, "layers": 1},
                "decoder": {"size": 8, "embedding_size": 6},
                "attention": {"recipe": "bahdanau", "size": 8},
            },
        },
        ["0 1", "2", "1 2 3 0 4 2"],
        training={"batch_tokens": 60},
    ),
    "documents": Case(
        documents,
        {
            "data": {"train": "train.csv", "dev": "dev.csv", "min_count": 1},
            "model": {
                "embedding_size": 6,
                "words": {"size": 4, "attention_size": 6},
                "sentences": {"size": 4, "attention_size": 6},
            },
        },
        ["It was a joy.", "A waste", "We sat by the window. It rained all day! A waste of money. The bus was late."],
        held_out="test.csv",
        training={"batch_words": 200},
        open=("training.warmup_steps", "model.dropout"),
    ),
    "language_modelling": Case(
        running_text,
        {
            "data": {"train": "train.txt"},
            "model": {"architecture": "transformer", "size": 8, "layers": 2, "heads": 2},
            "decoding": {"max_length": 8},
        },
        ["the fox", "jumps", "the quick fox 9"],
        held_out="test.txt",
        training={"window": 16, "batch_size": 20},
    ),
    "text_to_speech": Case(
        recordings,
        {
            "data": {"train": "train.csv", "dev": "dev.csv"},
            "model": {
                "encoder": {"size": 8, "embedding_size": 6, "convolutions": 1},
                "decoder": {"size": 8, "prenet_sizes": [6]},
                "postnet": {"size": 6, "layers": 2},
                "attention": {"recipe": "forward_attention", "size": 6},
            },
            "decoding": {"max_frames_per_unit": 6.0},
        },
        ["a sea", "see", "no one is so 9"],
        held_out="test.csv",
        training={"batch_frames": 200, "alignment_losses": {"guided_attention": 1.0}},
        open=("training.warmup_steps", "training.align_by"),
    ),
    "forecasting": Case(
        series,
        {
            "data": {"train": "train.csv", "history": 8, "horizon": 4, "split": {"fractions": [0.7, 0.3, 0.0]}},
            "model": {
                "encoder": {"size": 6, "embedding_size": 5},
                "decoder": {"size": 6, "embedding_size": 5},
                "attention": {"recipe": "bahdanau", "size": 6},
            },
        },
        ["train.csv", "test.csv", "long.csv"],
        held_out="test.csv",
        training={"batch_windows": 20, "scheduled_sampling": 0.3, "sequence_teacher_forcing": 0.7},
        open=("training.warmup_steps", "data.dev_stride"),
    ),
}


def configured(task: str, folder: Path, **training: Any) -> Path:
    """A configuration beside its data; both are written if they are not there."""
    case = TASK_CASES[task]
    if not folder.exists():
        folder.mkdir(parents=True)
        case.write(folder)
    values = {"task": task, **case.sections, "training": {**LOOP, **case.training, **training}}
    path = folder / f"{task}.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def near(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal but for rounding."""
    if isinstance(left, float):
        return isinstance(right, int | float) and math.isclose(left, right, rel_tol=1e-4, abs_tol=2e-6)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(near(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(near, left, right))
    return bool(left == right)
