"""A training of regard and its error rates, by the command line that everybody has."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import child
from data import Files
from plan import TOGETHER, Training

import regard

BEAM = 5
SEARCHES = {"greedy": 1, "beam": BEAM}
COMMAND = (sys.executable, "-m", "regard")


def version() -> str:
    """Of regard, with the commit where it is a checkout."""
    here = Path(regard.__file__).parent
    described = ["git", "-C", str(here), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(described, capture_output=True, text=True, check=False)
    return f"{regard.__version__} {done.stdout.strip()}".strip()


def train(
    training: Training,
    files: Files,
    folder: Path,
    *,
    parts: Sequence[str] = ("dev",),
    teachers: Sequence[Path] = (),
    command: Sequence[str] = COMMAND,
) -> dict[str, Any]:
    """Trains from the beginning and evaluates greedily and with a beam; models that predict together are not trained.

    Args:
        folder: of the run; one that was broken off is removed, as nobody knows what it had cost.
        parts: dev, test or both.
        teachers: the run folders of `training.teachers`.
        command: what `regard` is.

    Raises:
        Failed: if a command fails.
    """
    shutil.rmtree(folder, ignore_errors=True)
    log = folder.with_suffix(".txt")
    log.unlink(missing_ok=True)
    result: dict[str, Any] = {"version": version(), "cpu": 0.0}
    model: list[str | Path] = ["--model", folder]
    if training.setting.startswith(TOGETHER):
        folder.mkdir(parents=True)
        model = ["--model", teachers[0], "--ensemble", json.dumps([str(other) for other in teachers[1:]])]
    else:
        sets = ["training.threads=1", *training.overrides]
        if teachers:
            what = ["distill", *teachers, files.train, "--dev", files.dev, "--no-relabel"]
        else:
            what = ["train", "--preset", training.preset]
            sets = [f"data.train={files.train}", f"data.dev={files.dev}", *sets]
        told = [item for override in sets for item in ("--set", override)]
        options = ["--seed", str(training.seed), "--device", "cpu", "--output", folder]
        cost = child.run([*command, *what, *options, *told], log)
        outcome = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
        result |= {"cpu": cost.cpu, "wall": cost.wall}
        result |= {"steps": outcome["steps"], "best_step": outcome["best_step"], "stop": outcome["stop_reason"]}
    for part in parts:
        result[part] = {}
        for name, beam in SEARCHES.items():
            figures = folder / f"{part}_{name}.json"
            asked = ["evaluate", getattr(files, part), *model, "--json", "--beam", str(beam)]
            searched = child.run([*command, *asked, "--device", "cpu", "--output", figures], log)
            rates = json.loads(figures.read_text(encoding="utf-8"))
            result[part][name] = {
                "words": rates["sequence_error_rate"],
                "symbols": rates["symbol_error_rate"],
                "cpu": searched.cpu,
            }
    return result
