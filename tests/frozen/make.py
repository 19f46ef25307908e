"""Makes the run folders and model folders of a version, which every later version must read.

    python tests/frozen/make.py tests/frozen/0.1.0

Two configurations each have their data, an interrupted run (`run`), the model folder of the finished one (`model`), and
what this version gives (`expected.json`): the lines of `metrics.jsonl`, and predictions with scores and alignments.
A version's folders are made once and never again; a later one makes its own beside them.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import regard
from regard.data.text import synthetic
from regard.runs.store import save

COMMON = "data: {train: train.tsv, dev: dev.tsv, source: {units: whitespace}, target: {units: whitespace}}\n"
CONFIGS = {
    "additive": """\
model:
  encoder: {cell: gru, size: 6, layers: 2, embedding_size: 5, dropout: 0.2}
  decoder: {cell: gru, size: 7, layers: 1, embedding_size: 5, dropout: 0.2, input_feeding: true}
  attention: {recipe: bahdanau, size: 6}
training: {epochs: 2, batch_tokens: 96, learning_rate: 0.01, log_every: 1, validate_every: 12, average_checkpoints: 3, \
  label_smoothing: 0.1, samples: 1, threads: 1, device: cpu}
decoding: {beam: 3, num_best: 2}
""",
    "location": """\
seed: 3
select: teacher_forced_loss
model:
  encoder: {cell: lstm, size: 6, layers: 1, embedding_size: 5, dropout: 0, residual: true}
  decoder: {cell: lstm, size: 7, layers: 2, embedding_size: 7, dropout: 0.1, order: attend_then_recur, query: state, \
    bridge: zero, tied_weights: true}
  attention: {recipe: location_sensitive, size: 6, num_filters: 3, kernel_size: 5}
training: {epochs: 5, batch_tokens: 96, learning_rate: 0.01, schedule: plateau, log_every: 1, validate_every: 12, \
  average_checkpoints: 0, accumulation: 2, scheduled_sampling: 0.2, optimizer: adam, samples: 1, threads: 1, \
  device: cpu}
decoding: {beam: 2, length_penalty: average}
""",
}
INPUTS = ["1 2 3", "4 4 1 2", "3", "2 1 4 3 5", "5 5"]
LINES = 5
"""Of the log, after which a run is interrupted."""


def main(folder: Path) -> None:
    """All folders."""
    for name, text in CONFIGS.items():
        place = folder / name
        place.mkdir(parents=True)
        for part, count, seed in (("train", 120, 1), ("dev", 12, 2)):
            pairs = list(synthetic.generate("reverse", count, max_length=5, num_symbols=5, seed=seed))
            synthetic.write(place / f"{part}.tsv", pairs)
        (place / "run.yaml").write_text(COMMON + text, encoding="utf-8")
        interrupt(place)
        shutil.copytree(place / "run", place / "whole")
        subprocess.run([*COMMAND, "--output", "whole"], cwd=place, check=True)
        model = regard.load(place / "whole")
        save(model, place / "model")
        expected = {"torch": torch.__version__, "metrics": metrics(place / "whole"), "predictions": predictions(model)}
        (place / "expected.json").write_text(json.dumps(expected, indent=1), encoding="utf-8")
        shutil.rmtree(place / "whole")
        (place / "run" / ".lock").unlink()
        for config in place.rglob("config.yaml"):
            config.write_text(config.read_text(encoding="utf-8").replace(str(place), FOLDER), encoding="utf-8")


FOLDER = "FOLDER"
"""Stands in configurations for the folder in which they were made; whoever reads them puts a place of theirs there."""
COMMAND = [sys.executable, "-m", "regard", "train", "run.yaml"]


def interrupt(place: Path) -> None:
    """A run that Control-C stopped after a few steps."""
    process = subprocess.Popen([*COMMAND, "--output", "run"], cwd=place)
    log = place / "run" / "metrics.jsonl"
    while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= LINES):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    if process.wait() != 130:
        raise SystemExit("The run ended before it was interrupted: try again.")


def metrics(run: Path) -> list[dict[str, Any]]:
    """The log without what a clock says."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "timing"} for line in lines]


def predictions(model: Any) -> list[dict[str, Any]]:
    """What a model says to `INPUTS`."""
    return [
        {
            "input": text,
            "texts": [prediction.text, *(other.text for other in prediction.alternatives)],
            "score": prediction.score,
            "alignment": prediction.alignment.tolist(),
        }
        for text, prediction in zip(INPUTS, model.predict(INPUTS), strict=True)
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
