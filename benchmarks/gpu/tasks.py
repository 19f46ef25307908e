"""Every task at its smallest: trained by the command line in each format, its predictions those of the CPU."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from place import FORMATS, Place, Result, short

from regard.cli import run
from regard.tasks import load
from task_cases import TASK_CASES, configured, near


def section(place: Place, result: Result, *tasks: str) -> None:
    """Trains, evaluates and predicts with each of the tasks."""
    add, held = result.table("task", "precision", "outcome", "seconds"), 0
    for task in tasks:
        case = TASK_CASES[task]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / task
            for dtype in FORMATS if place.is_full else FORMATS[:2]:  # no CPU trains an LSTM in float16
                start, output = time.monotonic(), str(folder / short(dtype))
                path = configured(task, folder, device=place.device.type, precision=short(dtype))
                os.chdir(folder)
                commands = ["train", str(path), "--output", output], ["evaluate", "-m", output, case.held_out]
                failed = [words[0] for words in commands if run(words)]
                if not failed:
                    models = [load(output, device=device) for device in ("cpu", place.device.type)]
                    inputs = [[model.read(each) for each in case.inputs] for model in models]
                    records = [
                        [model.record(prediction) for prediction in model.predict(each)]
                        for model, each in zip(models, inputs, strict=True)
                    ]
                    failed = [] if near(*records) else ["predictions differ from those on the CPU"]
                result.failures += [f"{task}, {short(dtype)}: {what}" for what in failed]
                held += not failed
                result.summary = f"{held} trainings with predictions as on the CPU"
                add(task, short(dtype), ", ".join(failed) or "held", f"{time.monotonic() - start:.1f}")
                os.chdir("/")
