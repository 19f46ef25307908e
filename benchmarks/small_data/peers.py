"""Phonetisaurus and yoyodyne on the same words, each in an environment of its own, as its authors use it.

    python -m venv phonetisaurus && phonetisaurus/bin/pip install phonetisaurus==0.3.0
    python -m venv yoyodyne && yoyodyne/bin/pip install yoyodyne==0.5.27

Phonetisaurus (Novak et al. 2016) is trained as its documentation does: joint sequences of 8, deletions of phones.
yoyodyne has its sample configurations, which stand in the folder `yoyodyne`.
"""

from __future__ import annotations

import argparse
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import child
from data import Files
from plan import Training

CONFIGURATIONS = Path(__file__).parent / "yoyodyne"
MODELS = {"yoyodyne LSTM": ("lstm.yaml", 20), "yoyodyne Transformer": ("transformer.yaml", 100)}
"""File and sentences a batch."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the peers need."""
    parser.add_argument("--phonetisaurus", type=Path, metavar="PYTHON", help="the interpreter that has it")
    parser.add_argument("--yoyodyne", type=Path, metavar="PYTHON", help="the interpreter that has it")


def train(
    training: Training, files: Files, folder: Path, *, parts: Sequence[str], options: argparse.Namespace
) -> dict[str, Any]:
    """Trains a peer from the beginning and counts its errors.

    Raises:
        Failed: if a program fails.
        SystemExit: if its interpreter was not named.
    """
    program = training.program.partition(" ")[0]
    python = getattr(options, program)
    if python is None:
        raise SystemExit(f"--{program} is missing: the interpreter that has {program}. peers.py says how to make one.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python = python.absolute()
    if program == "phonetisaurus":
        return _phonetisaurus(python, files, folder.absolute(), parts)
    return _yoyodyne(python, training, files, folder.absolute(), parts)


def _phonetisaurus(python: Path, files: Files, folder: Path, parts: Sequence[str]) -> dict[str, Any]:
    log, model = folder / "log.txt", folder / "model.fst"
    lexicon = folder / "lexicon.txt"
    lexicon.write_text(files.train.read_text(encoding="utf-8").replace("\t", " "), encoding="utf-8")
    program = [python, "-m", "phonetisaurus"]
    cost = child.run([*program, "train", "--model", model, lexicon], log, folder=folder)
    result: dict[str, Any] = {"version": "0.3.0", "cpu": cost.cpu, "wall": cost.wall}
    for part in parts:
        references = read(getattr(files, part))
        output = folder / f"{part}.txt"
        spent = child.run([*program, "predict", "--model", model, *references], output, folder=folder)
        # Words that it cannot spell are left out of its output, which has warnings, too.
        said = dict(line.split(" ", 1) for line in output.read_text(encoding="utf-8").splitlines() if " " in line)
        result[part] = {"best": {**rates(references, said), "cpu": spent.cpu}}
    return result


def _yoyodyne(python: Path, training: Training, files: Files, folder: Path, parts: Sequence[str]) -> dict[str, Any]:
    log = folder / "log.txt"
    program = [python.with_name("yoyodyne")]
    configuration, batch = MODELS[training.program]
    model = ["--model", CONFIGURATIONS / configuration]
    columns = ["--data.target_sep", " ", "--data.batch_size", str(batch)]
    (seconds,) = (text.removeprefix("cpu_seconds=") for text in training.overrides)
    environment = {"CPU_SECONDS": seconds, "PYTHONPATH": str(CONFIGURATIONS), "WANDB_MODE": "disabled"}

    def data(**told: Path) -> list[str | Path]:
        named = {"model_dir": folder, **told}
        return [*columns, *(item for name, path in named.items() for item in (f"--data.{name}", path.absolute()))]

    best = ["--checkpoint.filename", "best", "--checkpoint.monitor", "val_accuracy", "--checkpoint.mode", "max"]
    kept = ["--checkpoint.dirpath", folder]
    trainer = ["--trainer", CONFIGURATIONS / "trainer.yaml", "--trainer.accelerator", "cpu"]
    place = ["--trainer.default_root_dir", folder]
    seed = ["--seed_everything", str(training.seed)]
    cost = child.run(
        [*program, "fit", *seed, *model, *trainer, *place, *best, *kept, *data(train=files.train, val=files.dev)],
        log,
        environment=environment,
        folder=folder,
    )
    result: dict[str, Any] = {"version": "0.5.27", "cpu": cost.cpu, "wall": cost.wall, **_how_far(folder)}
    for part in parts:
        references, output = read(getattr(files, part)), folder / f"{part}.txt"
        words = folder / f"{part}.tsv"
        words.write_text("".join(f"{word}\n" for word in references), encoding="utf-8")
        asked = ["--ckpt_path", folder / "best.ckpt", "--prediction.path", output, "--data.target_col", "0"]
        where = ["--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false", *place]
        spent = child.run(
            [*program, "predict", *model, *where, *data(predict=words), *asked],
            log,
            environment=environment,
            folder=folder,
        )
        said = dict(zip(references, output.read_text(encoding="utf-8").splitlines(), strict=True))
        result[part] = {"greedy": {**rates(references, said), "cpu": spent.cpu}}
    return result


def _how_far(folder: Path) -> dict[str, Any]:
    """Steps and the step of the best validation, where the log of figures has them."""
    figures = sorted(folder.glob("lightning_logs/version_*/metrics.csv"))
    if not figures:
        return {}
    head, *lines = (line.split(",") for line in figures[-1].read_text(encoding="utf-8").splitlines())
    found = [dict(zip(head, line, strict=True)) for line in lines]
    validated = [line for line in found if line.get("val_accuracy")]
    if not validated:
        return {}
    best = max(validated, key=lambda line: float(line["val_accuracy"]))
    return {"steps": int(found[-1]["step"]) + 1, "best_step": int(best["step"]) + 1}


def read(path: Path) -> dict[str, list[list[str]]]:
    """The pronunciations of every word of a file, each a list of phones."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        word, _, phones = line.partition("\t")
        found[word].append(phones.split())
    return dict(found)


def rates(references: Mapping[str, Iterable[Sequence[str]]], said: Mapping[str, str]) -> dict[str, float]:
    """Shares of words and of phones that are wrong; a word without an answer is wrong altogether.

    >>> rates({"ab": [["A", "B"]], "c": [["K"], ["S"]]}, {"ab": "A P", "c": "S"})
    {'words': 0.5, 'symbols': 0.3333333333333333}
    """
    wrong = errors = length = 0
    for word, pronunciations in references.items():
        phones = said.get(word, "").split()
        least = min((distance(phones, right), len(right)) for right in pronunciations)
        wrong, errors, length = wrong + (least[0] > 0), errors + least[0], length + least[1]
    return {"words": wrong / len(references), "symbols": errors / length}


def distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Insertions, deletions and substitutions from one to the other, at least.

    >>> distance("kitten", "sitting")
    3
    """
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]
