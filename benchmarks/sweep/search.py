"""A search for settings on one of ten languages, beside its preset; and searches that are killed and continued.

    python benchmarks/sweep/search.py kills --data /data/g2p_multilingual --folder /tmp/sweep
    python benchmarks/sweep/search.py language --language ady --data /data/g2p_multilingual --folder /tmp/sweep

`kills` makes the same small search twice, once undisturbed and once as processes that are killed (SIGKILL) after random
times, and compares the tables and the best models. `language` searches on the training and development words and then
measures, once, the preset's model (trial 0) and the best one on the test words, with a paired bootstrap of the
difference. Both print Markdown. Repeating a command continues it.
"""

from __future__ import annotations

import argparse
import csv
import platform
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.files import checksum

RANGES = {
    "training.learning_rate": "{low: 5e-4, high: 8e-3, log: true}",
    "training.batch_tokens": "[256, 512, 1024]",
    "model.encoder.size": "{low: 96, high: 256, step: 32}",
    "model.encoder.dropout": "{low: 0.2, high: 0.6, step: 0.05}",
    "model.decoder.dropout": "{low: 0.2, high: 0.6, step: 0.05}",
}
SMALL = {
    "training.learning_rate": "{low: 5e-4, high: 2e-2, log: true}",
    "model.encoder.size": "[16, 32]",
    "model.attention.recipe": "[bahdanau, luong]",
}


def command(folder: Path, train: Path, dev: Path, ranges: dict[str, str], **settings: object) -> list[str]:
    """The command of a search with the preset g2p."""
    values = {"data.train": train, "data.dev": dev, "training.threads": 1, "training.device": "cpu", **settings}
    values |= {f"sweep.ranges.{key}": each for key, each in ranges.items()}
    flags = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "regard", "sweep", "--preset", "g2p", "--output", str(folder), *flags]


def table(folder: Path) -> list[dict[str, str]]:
    """The table without the only column that measures time."""
    with (folder / "trials.csv").open(encoding="utf-8", newline="") as file:
        return [{name: cell for name, cell in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def kills(data: Path, folder: Path, *, seed: int) -> None:
    """The same small search, undisturbed and killed."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {}
    for name, source, count in (("train", "dut_train.tsv", 300), ("dev", "dut_dev.tsv", 60)):
        lines = (data / source).read_text(encoding="utf-8").splitlines(keepends=True)
        parts[name] = folder / f"{name}.tsv"
        parts[name].write_text("".join(lines[:: len(lines) // count][:count]), encoding="utf-8")
    settings = {
        "select": "per",
        "training.max_steps": 40,
        "training.validate_every": 5,
        "training.save_every_minutes": 0.01,
        "model.encoder.size": 16,
        "model.decoder.size": 16,
        "sweep.trials": 6,
        "sweep.halving_from": 0.25,
        "sweep.halving": 2,
    }
    whole = command(folder / "whole", parts["train"], parts["dev"], SMALL, **settings)
    began = time.perf_counter()
    subprocess.run(whole, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    draws, number = random.Random(seed), 0
    broken = command(folder / "killed", parts["train"], parts["dev"], SMALL, **settings)
    while True:
        process = subprocess.Popen(broken, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert process.wait(draws.uniform(0.15, 0.45) * seconds) == 0
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            number += 1
    same_table = table(folder / "whole") == table(folder / "killed")
    names = ("config.yaml", "model.safetensors", "source.json", "target.json")
    same_best = all(checksum(folder / "whole/best" / name) == checksum(folder / "killed/best" / name) for name in names)
    states = [row["state"] for row in table(folder / "whole")]
    print("## Killed and continued\n")
    print(f"{len(states)} trainings ({states.count('stopped')} stopped), {seconds:.0f} s; killed {number} times.")
    print(f"The same table: {same_table}. The same files of the best model: {same_best}.\n")


def language(name: str, data: Path, folder: Path, *, trials: int, seconds: float, steps: int | None) -> None:
    """The preset and the best settings of a search, on words that the search has not seen."""
    train, dev, test = (data / f"{name}_{part}.tsv" for part in ("train", "dev", "test"))
    budget: dict[str, object] = {"sweep.trials": trials, "sweep.seconds": seconds}
    if steps is not None:
        budget["training.max_steps"] = steps
    subprocess.run(command(folder / name, train, dev, RANGES, **budget), check=True, stdout=subprocess.DEVNULL)
    rows = table(folder / name)
    with (folder / name / "trials.csv").open(encoding="utf-8", newline="") as file:
        spent = [float(row["seconds"]) for row in csv.DictReader(file)]
    wrong = {model: _wrong(folder / name / model, test) for model in ("trials/000", "best")}
    first, best = wrong["trials/000"], wrong["best"]
    draws = np.random.default_rng(1).integers(0, len(first), (10_000, len(first)))
    differences = np.sort((best[draws].mean(1) - first[draws].mean(1)) * 100)
    print(f"## {name}\n\n| trial | state | " + " | ".join(list(rows[0])[2:-1]) + " | seconds |")
    print("|" + "---|" * (len(rows[0]) + 0))
    for row, second in zip(rows, spent, strict=True):
        print("| " + " | ".join([*list(row.values())[:-1], f"{second:.0f}"]) + " |")
    print(
        f"\nWrong test words ({len(first)}): the preset {100 * first.mean():.2f} %, the best {100 * best.mean():.2f} %."
    )
    low, high = differences[[249, 9749]]
    print(f"Difference {100 * (best.mean() - first.mean()):+.2f} points, 95 % interval {low:+.2f} to {high:+.2f}.")
    print(f"{sum(spent):.0f} seconds of training in all, {spent[0]:.0f} of them the preset's.\n")


def _wrong(model: Path, test: Path) -> np.ndarray:
    """For every test word, whether its pronunciation is wrong."""
    flags = ["--model", str(model), "--input", str(test), "--source-field", "0"]
    done = subprocess.run([sys.executable, "-m", "regard", "predict", *flags], check=True, capture_output=True)
    outputs = [line.split("\t")[-1] for line in done.stdout.decode().splitlines()]
    references = [line.split("\t")[1] for line in test.read_text(encoding="utf-8").splitlines()]
    assert len(outputs) == len(references), (len(outputs), len(references))
    return np.array([output != reference for output, reference in zip(outputs, references, strict=True)])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["kills", "language"])
    parser.add_argument("--data", type=Path, required=True, help="the folder with LANGUAGE_train.tsv and so on")
    parser.add_argument("--folder", type=Path, required=True, help="a folder for the searches")
    parser.add_argument("--language", default="ady")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=900, help="no training begins after this time of training")
    parser.add_argument("--steps", type=int, help="of each training, the preset's included; default: the preset's")
    parser.add_argument("--seed", type=int, default=1, help="of the times of kills")
    given = parser.parse_args(arguments)
    if given.part == "kills":
        kills(given.data, given.folder, seed=given.seed)
    else:
        language(
            given.language, given.data, given.folder, trials=given.trials, seconds=given.seconds, steps=given.steps
        )
    print(f"Python {platform.python_version()}, {platform.machine()}, {time.strftime('%Y-%m-%d')}.")


if __name__ == "__main__":
    main()
