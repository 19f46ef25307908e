"""Trainings that are continued after somebody edited, moved or damaged something."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

from hostile import models, text
from hostile.checkpoints import damage
from hostile.trial import Trial, command

MINE = {
    "run/notes.json": "{}",
    "run/train.jsonl": "mine",
    "run/mine.yaml": "a: 1",
    "run/pictures/me.png": "me",
    "run/thesis.txt": "dear",
    "run/own.model": "mine",
    "run/latest": "mine",
    "run/checkpoints/mine.txt": "mine",
}

RECORDS = {
    f"{run}/{name}"
    for run in ("run", "elsewhere/run")
    for name in ("run.json", "metrics.jsonl", "outcome.json", "config.yaml", "model.safetensors", "checkpoints/")
}


def draw(random: Random, folder: Path) -> Trial:
    """An interrupted or finished training, what happened to it, and the command that should continue it."""
    original = models.interrupted() if random.random() < 0.75 else models.finished()
    if random.random() < 0.1:
        shutil.copytree(original, folder, dirs_exist_ok=True)
        about = [original.name, "the whole project moved"]
    else:
        models.copied(original, folder)
        about = [original.name]
    survivors = set()
    for name in random.sample(sorted(MINE), random.choice((0, 1, 3))):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(MINE[name], encoding="utf-8")
        survivors.add(name)
    arguments = ["train", "tiny.yaml", "--output", "run"]
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        way = random.randrange(10)
        if way < 4:
            about.append(damage(random, folder / "run"))
        elif way == 4:
            about.append("state: " + damage(random, folder / "run", among="trainer_state.pt"))
        elif way == 5:
            key = random.choice(
                (
                    "seed",
                    "training.epochs",
                    "training.batch_tokens",
                    "model.encoder.size",
                    "data.train",
                    "data.dev",
                    "training.log_every",
                    "training.device",
                    "training.threads",
                    "select",
                )
            )
            option = f"{key}={text.number(random) if random.random() < 0.7 else text.argument(random)}".replace(
                "\x00", ""
            )
            if not _is_large(option):
                arguments += ["--set", option]
        elif way == 6:
            name = random.choice(("pairs.tsv", "dev.tsv", "tiny.yaml"))
            (folder / name).write_bytes(text.damaged(random, (folder / name).read_bytes()))
            about.append(f"{name} damaged")
        elif way == 7:
            about.append(_moved(random, folder))
        elif way == 8:
            arguments.append("--overwrite")
        else:
            arguments[1] = random.choice(("run/config.yaml", "missing.yaml", "run", "pairs.tsv", "tiny.yaml"))
    records = set() if "--overwrite" in arguments else RECORDS
    if "--overwrite" in arguments and random.random() < 0.4:
        arguments += [
            "--set",
            random.choice(
                ("data.train=missing.tsv", "training.epochs=x", "data.source.units=byte", "data.max_length=1")
            ),
        ]
    return Trial(
        f"{about} {arguments}",
        lambda: command(*arguments) and None,
        replaced={"run/", "moved/", "elsewhere/run/"},
        records=records,
        survivors={name for name in survivors if (folder / name).is_file() and not (folder / name).is_symlink()},
    )


def _is_large(option: str) -> bool:
    """Trainings of thousands of epochs or of huge networks are long, not broken."""
    digits = "".join(letter for letter in option.partition("=")[2] if letter.isdigit())
    return option.startswith(("training.epochs", "model.encoder.size", "training.threads")) and len(digits) > 2


def _moved(random: Random, folder: Path) -> str:
    way = random.randrange(4)
    if way == 0:
        os.rename(folder / "run", folder / "moved")
        return "the run is called otherwise"
    if way == 1:
        (folder / "pairs.tsv").rename(folder / "other.tsv")
        return "the data is called otherwise"
    if way == 2:
        (folder / "run" / ".partial").mkdir()
        (folder / "run" / ".model.partial").write_text("a file in the way", encoding="utf-8")
        return "a file in the way"
    if (folder / "elsewhere").exists():
        return "it is elsewhere already"
    (folder / "elsewhere").mkdir()
    for name in ("pairs.tsv", "dev.tsv", "tiny.yaml", "run"):
        os.rename(folder / name, folder / "elsewhere" / name)
    os.symlink("elsewhere/run", folder / "run")
    os.symlink("elsewhere/tiny.yaml", folder / "tiny.yaml")
    return "the project is elsewhere, behind links"
