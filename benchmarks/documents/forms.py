"""The forms of networks that classify documents, side by side, as `regard train --preset documents` trains them.

    python benchmarks/documents/forms.py TRAIN TEST --output FOLDER [--forms FORM …] [--set KEY=VALUE …]

Each is trained in a folder of its own with the same settings, and evaluated once on the test file; choices are made on
what the preset holds out of the training file. A form whose folder has a finished run is only evaluated.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

FLAT = "model.architecture=flat"
FORMS = {
    "hierarchical": [],
    "flat-attention": [FLAT],
    "flat-multi-head": [FLAT, "model.words.pooling=multi_head"],
    "flat-mean": [FLAT, "model.words.pooling=mean"],
    "flat-maximum": [FLAT, "model.words.pooling=maximum"],
    "flat-last-state": [FLAT, "model.words.pooling=last_state"],
    "embeddings-mean": [FLAT, "model.words.cell=none", "model.words.pooling=mean"],
    "embeddings-maximum": [FLAT, "model.words.cell=none", "model.words.pooling=maximum"],
    "embeddings-attention": [FLAT, "model.words.cell=none"],
}
"""Settings of each form; `embeddings-` have no recurrent layer."""


def regard(*arguments: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def row(name: str, options: argparse.Namespace) -> str:
    """Trains and evaluates a form."""
    folder = Path(options.output) / name
    settings = [f"data.train={options.train}", "training.threads=1", *FORMS[name], *options.set]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    regard("train", "--preset", "documents", "-o", str(folder), *(f"--set={each}" for each in settings))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    test = json.loads(regard("evaluate", "-m", str(folder), options.test, "--json"))
    run = json.loads(regard("info", str(folder), "--json"))
    held_out = run["training"]["held_out"]
    return (
        f"| {name} | {run['parameters']:,} | {run['training']['steps']:,} | {seconds:.0f} | {held_out['accuracy']:.2%} "
        f"| {test['accuracy']:.2%} | {test['macro_f1']:.4f} | {test['loss']:.4f} |"
    )


def main() -> None:
    """Prints a row for each form."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--output", required=True, help="the folder of the runs")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS)[:6])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    print("| form | parameters | steps | CPU seconds | held out | test accuracy | test macro F1 | test loss |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.forms:
        print(row(name, options), flush=True)


if __name__ == "__main__":
    main()
