"""A tiny model, and a tiny training that was interrupted, made once in a process and copied from."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from hostile.trial import Refused, command, inside
from regard.data.text import Field
from regard.runs.store import save
from regard.tasks import TextToText
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.trainee import PairTrainee

TINY = {
    "encoder": {"size": 4, "embedding_size": 3, "dropout": 0.0},
    "decoder": {"size": 4, "embedding_size": 3, "dropout": 0.0},
    "attention": {"recipe": "bahdanau", "size": 4},
}
CONFIGURATION = """\
seed: 3
data: {train: pairs.tsv, dev: dev.tsv}
model:
  encoder: {size: 4, embedding_size: 3}
  decoder: {size: 4, embedding_size: 3}
  attention: {recipe: bahdanau, size: 4}
training: {epochs: 2, batch_tokens: 40, samples: 0, device: cpu, threads: 1, validate_every: 3, warmup_steps: 1}
decoding: {max_length: 5}
"""


def pairs(count: int, begin: int = 0) -> str:
    """So many pairs of words and their reversals."""
    words = [
        "".join("abcdef"[(n * step + n // 5) % 6] for step in range(1, 2 + n % 4)) for n in range(begin, begin + count)
    ]
    return "".join(f"{word}\t{word[::-1]}\n" for word in words)


@cache
def root() -> Path:
    """Where they are kept while this process lives."""
    folder = Path(tempfile.mkdtemp(prefix="regard-hostile-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def model() -> TextToText:
    """An untrained model of six letters."""
    torch.manual_seed(0)
    config = TextToTextConfig(data={"train": "pairs.tsv"}, model=TINY, decoding={"max_length": 6})
    field = Field.build(config.data.source, ["abcdef"], name="source")
    return TextToText.build(config, field, field)


@cache
def saved() -> Path:
    """The folder of that model."""
    save(model(), root() / "model")
    return root() / "model"


@cache
def interrupted() -> Path:
    """A folder with pairs.tsv, dev.tsv, tiny.yaml and `run/`, a training that Ctrl-C stopped in its first epoch."""
    folder = root() / "project"
    folder.mkdir()
    (folder / "pairs.tsv").write_text(pairs(40), encoding="utf-8")
    (folder / "dev.tsv").write_text(pairs(4, 40), encoding="utf-8")
    (folder / "tiny.yaml").write_text(CONFIGURATION, encoding="utf-8")
    compute, made = PairTrainee.loss, [0]

    def loss(*args: Any, **kwargs: Any) -> Any:
        made[0] += 1
        if made[0] == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return compute(*args, **kwargs)

    with inside(folder), patch.object(PairTrainee, "loss", loss), suppress(Refused):  # status 130
        command("train", "tiny.yaml", "--output", "run")
    assert (folder / "run" / "checkpoints" / "latest").exists()
    return folder


@cache
def finished() -> Path:
    """The same folder after the training was continued to its end."""
    folder = root() / "finished"
    copied(interrupted(), folder)
    with inside(folder):
        command("train", "tiny.yaml", "--output", "run")
    return folder


def copied(project: Path, folder: Path) -> None:
    """A project in another folder, its run's configuration naming the files there."""
    shutil.copytree(project, folder, dirs_exist_ok=True)
    file = folder / "run" / "config.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace(str(project), str(folder)), encoding="utf-8")
