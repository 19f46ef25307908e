"""Changes every key of a task once, trains a tiny model, and lists the keys that change nothing.

For developers, `python tests/key_effects.py TASK`: it takes minutes a task. What it lists is judged by hand, because a
key may have no effect on these data only, such as `data.max_length` where nothing is longer.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import torch
import yaml

from regard import tasks
from regard.config import load
from regard.config.description import is_listed
from regard.config.keys import Key, keys
from regard.config.schema import SCHEMAS
from regard.errors import ConfigError, RegardError
from task_cases import LOOP, TASK_CASES

OTHERS = {
    "text_to_text": {"architecture": "transformer", "encoder": {"size": 8, "layers": 1, "heads": 2},
                     "decoder": {"size": 8, "layers": 1, "heads": 2}},
    "language_modelling": {"size": 8},
    "documents": {"architecture": "flat", "embedding_size": 6, "words": {"size": 4, "attention_size": 6}},
}  # fmt: skip
"""By task, a network of another kind than that of the list of tasks."""
CHANGING = re.compile(r"[0-9.]+ ?(s|seconds|minutes|MB|ms)\b|\d+:\d+|[0-9,.]+ \w+ (a|per) second")


def effects(configuration: dict[str, Any], folder: Path, inputs: Any, held_out: str) -> dict[str, str]:
    """What a training leaves and says, by kind."""
    said = io.StringIO()
    run, file = folder / "run", folder / "run.yaml"
    file.write_text(yaml.safe_dump(configuration, sort_keys=False))
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        read = load(file)
        read.check_unread()
        tasks.train(read, run, overwrite=run.exists())
        model = tasks.load(run, device="cpu")
        weights = hashlib.md5()
        for name, tensor in sorted(model.module.state_dict().items()):
            weights.update(name.encode() + tensor.numpy().tobytes())
        given = [each for text in inputs for _, each in model.inputs(text)]
        records = [model.record(prediction) for prediction in model.predict(given)]
        try:
            measured = str(model.evaluate(folder / held_out).metrics)
        except RegardError as error:
            measured = str(error)
    return {
        "weights": weights.hexdigest(),
        "predictions": json.dumps(records, default=str, sort_keys=True),
        "measures": measured,
        "files": str(sorted(str(path.relative_to(run)) for path in run.rglob("*"))),
        "log": CHANGING.sub("", said.getvalue()),
    }


def other_values(key: Key, value: Any) -> Iterator[Any]:
    """Values of a key other than the one that it has."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    for member in key.members:
        if member.choices:
            yield from (choice for choice in get_args(member.type) if choice != value)
        elif member.type is bool:
            yield not value
        elif member.type is int:
            yield from ((number or 1) + 1, (number or 1) + 3)
        elif member.type is float:
            yield from (each for each in ((number or 0.3) + 0.1, (number or 0.3) / 2, 0.9, 2.0) if each != value)
        elif member.type is type(None) and value is not None:
            yield None


def report(task: str, configuration: dict[str, Any], folder: Path) -> None:
    """Prints a line for each key that is accepted and changes nothing."""
    case = TASK_CASES[task]
    before, again = (effects(configuration, folder, case.inputs, case.held_out) for _ in range(2))
    compared = [kind for kind in before if before[kind] == again[kind]]
    config = load(folder / "run.yaml").config
    for path, key in keys(SCHEMAS[task], config.model_dump()).items():
        value: Any = config
        for name in path:
            value = getattr(value, name, None)
        if not is_listed(key) or key.is_path:
            continue
        tried = []
        for other in list(other_values(key, value))[:6]:
            changed = copy.deepcopy(configuration)
            section = changed
            for name in path[:-1]:
                section = section.setdefault(name, {})
            section[path[-1]] = other
            try:
                after = effects(changed, folder, case.inputs, case.held_out)
            except (ConfigError, RegardError):
                continue
            tried.append(other)
            if any(after[kind] != before[kind] for kind in compared):
                break
        else:
            if tried:
                print(f"{task}: {'.'.join(path)}: {tried} change nothing", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=list(TASK_CASES))
    torch.set_num_threads(1)
    task = parser.parse_args().task
    case = TASK_CASES[task]
    base = {"task": task, **case.sections, "training": {**case.training, **LOOP}}
    variants = [base] + [{**base, "model": each} for each in [OTHERS.get(task)] if each]
    for configuration in variants:
        with tempfile.TemporaryDirectory() as folder:
            case.write(Path(folder))
            with contextlib.chdir(folder):
                report(task, configuration, Path(folder))
