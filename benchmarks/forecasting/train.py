"""Errors of the preset `forecasting` beside the baselines, by the commands that a user gives.

    python benchmarks/forecasting/train.py ETTh1.csv runs --counts 8640 2880 2880 --horizons 24 48 168
    python benchmarks/forecasting/train.py ETTh1.csv runs --counts 8640 2880 2880 --horizons 24 --missing 0.2
    python benchmarks/forecasting/train.py ETTh1.csv runs --counts 8640 2880 2880 --horizons 24 \\
        --set model.quantiles=[0.1,0.5,0.9]

For each horizon `regard train --preset forecasting` trains in a folder of its own, and `regard evaluate --json`
forecasts from every hour of the test part. `--missing 0.2` first removes a share of all values, from a fixed seed;
truth that was removed is not counted. The validation part chooses the weights; nothing is chosen on the test part.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

SEED = 1


def without(source: Path, target: Path, share: float) -> Path:
    """A copy of a CSV file with a share of its values removed; the first column is the time."""
    rng = np.random.default_rng(SEED)
    with source.open(newline="") as file:
        header, *rows = csv.reader(file)
    for row, missing in zip(rows, rng.random((len(rows), len(header) - 1)) < share, strict=True):
        row[1:] = ["" if is_missing else cell for cell, is_missing in zip(row[1:], missing, strict=True)]
    with target.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return target


def regard(*arguments: str) -> tuple[str, float]:
    """What a command prints, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    command = [sys.executable, "-m", "regard", *arguments]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Prints a row for each horizon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--counts", type=int, nargs=3, help="rows of training, validation and test")
    parser.add_argument("--horizons", type=int, nargs="+", default=[24, 48, 168])
    parser.add_argument("--missing", type=float, default=0.0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.file.resolve()
    if options.missing:
        file = without(file, (options.folder / f"missing-{options.missing:g}.csv").resolve(), options.missing)
    for horizon in options.horizons:
        settings = [f"data.train={file}", f"data.horizon={horizon}", "training.samples=0", "training.device=cpu"]
        settings += [f"data.split.counts={options.counts}"] * bool(options.counts) + options.set
        name = "-".join([str(horizon), *(text.replace("/", "-") for text in options.set), f"{options.missing:g}"])
        run = str(options.folder / name)
        flags = [flag for setting in settings for flag in ("--set", setting)]
        _, training = regard("train", "--preset", "forecasting", "--output", run, *flags)
        printed, evaluation = regard("evaluate", "--model", run, str(file), "--json")
        figures: dict[str, Any] = json.loads(printed)
        names = ["", "repeat_last_", "seasonal_", "linear_"]
        pairs = [tuple(figures[f"{n}mean_{kind}_error"] for kind in ("squared", "absolute")) for n in names]
        cells = [" / ".join(f"{value:.4f}" for value in pair) for pair in pairs]
        ratio = pairs[0][0] / pairs[-1][0]
        print(f"| {horizon} | {' | '.join(cells)} | {ratio:.3f} | {training:.0f} | {evaluation:.0f} |", flush=True)
        others = {name: value for name, value in figures.items() if name.startswith(("coverage", "pinball"))}
        if others:
            print(", ".join(f"{name} {value:.4f}" for name, value in others.items()), flush=True)


if __name__ == "__main__":
    main()
