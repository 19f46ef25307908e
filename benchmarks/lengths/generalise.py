"""How mechanisms generalise to longer inputs: trained on at most 20 symbols, tested on 20 to 200.

    python benchmarks/lengths/generalise.py --log runs/lengths.jsonl [--mechanisms 'additive;monotonic'] [--seeds 1,2]
    python benchmarks/lengths/generalise.py --log runs/own.jsonl --module mine.py --model '{attention: {recipe: mine}}'
    python benchmarks/lengths/generalise.py --log runs/lengths.jsonl --table lengths.md --picture lengths.svg

Every mechanism of `mechanisms.yaml` is trained on four tasks (`sequences.py`) for the same number of steps, at the end
of which the learning rate is 0. What is in the log is not done again, so several processes may share the work
(`--part 1/2`), and the same command continues after an interruption. The trained models stay in a folder `--keep`. A
file `--module` is run first: it may add a recipe of your own to `regard.attention.RECIPES`.
"""

from __future__ import annotations

import argparse
import json
import runpy
import shutil
import time
from collections import defaultdict
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml
from sequences import TASKS, read, right_prefix, write

import regard
from regard.decoding import Search

HERE = Path(__file__).parent
LENGTHS = (20, 30, 40, 60, 80, 100, 150, 200)
TRAINED = 20
"""The greatest length of training."""
TESTED = 50
"""Sequences of each length."""
SETTINGS: dict[str, Any] = {
    "data": {"source": {"units": "whitespace"}, "target": {"units": "whitespace"}, "max_length": TRAINED},
    "training": {
        "epochs": 1000, "batch_tokens": 500, "learning_rate": 0.005, "warmup_steps": 100, "schedule": "cosine",
        "label_smoothing": 0.0, "validate_every": 200, "early_stopping": None, "samples": 0, "threads": 1,
        "device": "cpu", "log_every": 200,
    },
    "decoding": {"beam": 1, "max_length_ratio": 1.5, "max_source_length": 250},
    "select": "sequence_error_rate",
}  # fmt: skip


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Nested dicts, with those of the second over those of the first."""
    both = {**first, **second}
    return {
        key: merged(first[key], value) if isinstance(value, dict) and isinstance(first.get(key), dict) else value
        for key, value in both.items()
    }


def measure(model: dict[str, Any], task: str, seed: int, steps: int, folder: Path, data: Path) -> dict[str, Any]:
    """Trains a mechanism on a task, and tests it at every length; the data are written unless they are there."""
    train = write(data / f"{task}-train.tsv", task, 50_000, 1, TRAINED, 1)
    dev = write(data / f"{task}-dev.tsv", task, 200, 1, TRAINED, 2)
    settings = merged(SETTINGS, {"model": model, "seed": seed, "training": {"max_steps": steps}})
    began = time.process_time()
    run = regard.train(settings, folder, train=train, dev=dev, quiet=True)
    seconds = time.process_time() - began
    exact, prefix = {}, {}
    for length in LENGTHS:
        path = write(data / f"{task}-{length}.tsv", task, TESTED, length, length, 3)
        inputs, references = read(path)
        predicted = run.model.predict(inputs, search=Search(beam=1), alignment=False)
        outputs = [each.text for each in predicted]
        exact[length] = float(np.mean([a == b for a, b in zip(outputs, references)]))
        prefix[length] = float(np.mean([right_prefix(a.split(), b.split()) for a, b in zip(outputs, references)]))
    return {"steps": steps, "seconds": round(seconds), "exact": exact, "prefix": prefix}


def figures(log: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The measurements, by mechanism and task."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in log.read_text().splitlines():
        each = json.loads(line)
        found[each["mechanism"]][each["task"]].append(each)
    return found


def table(log: Path) -> str:
    """A table for each task: percent of the sequences of each length that are right, the mean over seeds."""
    lines = []
    for task in TASKS:
        lines += [f"\n## {task}\n", f"| mechanism | seeds | {' | '.join(map(str, LENGTHS))} |"]
        lines.append("|---|" + "---:|" * (len(LENGTHS) + 1))
        for name, tasks in figures(log).items():
            if each := tasks.get(task):
                shares = [np.mean([entry["exact"][str(length)] for entry in each]) for length in LENGTHS]
                cells = " | ".join(f"{100 * share:.0f}" for share in shares)
                lines.append(f"| {name} | {len(each)} | {cells} |")
    return "\n".join(lines) + "\n"


def picture(log: Path, path: Path) -> None:
    """Draws a map for each task: mechanisms by lengths."""
    import matplotlib.pyplot as plt

    found = figures(log)
    names = list(found)
    figure, axes = plt.subplots(1, len(TASKS), figsize=(11, 0.24 * len(names) + 1.2), sharey=True, layout="constrained")
    for task, place in zip(TASKS, axes, strict=True):
        values = np.full((len(names), len(LENGTHS)), np.nan)
        for row, name in enumerate(names):
            if each := found[name].get(task):
                values[row] = [np.mean([entry["exact"][str(length)] for entry in each]) for length in LENGTHS]
        image = place.imshow(values, vmin=0, vmax=1, cmap="Blues", aspect="auto")
        place.set_title(task)
        place.set_xticks(range(len(LENGTHS)), map(str, LENGTHS), fontsize=7)
        place.set_yticks(range(len(names)), names, fontsize=7)
        place.set_xlabel("symbols of the input")
    figure.colorbar(image, ax=axes, label="share of outputs that are right", shrink=0.6)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--mechanisms", help="of mechanisms.yaml, with semicolons between; default: all")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--module", type=Path)
    parser.add_argument("--model", help="a section `model` of your own")
    parser.add_argument("--name", default="own")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if options.table or options.picture:
        if options.table:
            options.table.write_text(table(options.log))
        if options.picture:
            picture(options.log, options.picture)
        return
    if options.module is not None:
        runpy.run_path(str(options.module))
    listed = yaml.safe_load((HERE / "mechanisms.yaml").read_text())
    chosen = listed["mechanisms"] if options.model is None else {options.name: yaml.safe_load(options.model)}
    names = list(chosen) if options.mechanisms is None else options.mechanisms.split(";")
    for place in filter(None, (options.log.parent, options.keep)):
        place.mkdir(parents=True, exist_ok=True)
    part, count = map(int, options.part.split("/"))
    jobs = list(product(map(int, options.seeds.split(",")), options.tasks.split(","), names))
    for seed, task, name in jobs[part - 1 :: count]:
        done = options.log.read_text().splitlines() if options.log.exists() else []
        key = {"mechanism": name, "task": task, "seed": seed}
        if any(key.items() <= json.loads(line).items() for line in done):
            continue
        model = merged(listed[chosen[name].get("architecture", "recurrent")], chosen[name])
        with TemporaryDirectory(dir=options.log.parent) as temporary:
            folder = Path(temporary) / "run"
            figures_of = measure(model, task, seed, options.steps, folder, options.log.parent / "data")
            if options.keep is not None:
                shutil.move(folder, options.keep / f"{task}-{name.replace(' ', '-').replace(',', '')}-{seed}")
        with options.log.open("a") as file:
            file.write(json.dumps(key | figures_of) + "\n")
        print(json.dumps(key | figures_of), flush=True)


if __name__ == "__main__":
    main()
