"""Trainings on small data: how good the defaults are, and how good others are. README.md has the commands.

    python benchmarks/small_data/run.py languages --g2p FOLDER --log runs/small_data/log.jsonl

Every training is a program of its own with one thread. Its figures are appended to the log as soon as it ends, and
what is in the log is not done again: the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import re
import sys
from pathlib import Path
from typing import Any

import data
import ours
import peers
import plan as plans
import tables
from child import Failed
from ledger import Ledger
from plan import REGARD, THEMES, Training

HERE = Path(__file__).parent


def files(training: Training, options: argparse.Namespace) -> data.Files:
    """The data of a training; what is made for it goes beside the log."""
    made = options.log.parent / "data"
    if training.theme == "inflection":
        found = data.inflection(options.inflection, training.language)
    else:
        found = data.spelling(options.g2p, training.language)
    return found if training.pairs is None else data.cut(found, training.pairs, made)


def folder(training: Training, log: Path) -> Path:
    """Of what a training writes."""
    digest = hashlib.sha256(repr(training.key).encode()).hexdigest()[:8]
    shown = re.sub(r"[^\w.=-]+", "_", training.name)
    return log.parent / "runs" / f"{shown[:100]}_{digest}"


def measure(training: Training, options: argparse.Namespace) -> dict[str, Any]:
    """One training and its figures."""
    parts = ("dev", "test") if options.test else ("dev",)
    place = folder(training, options.log)
    if training.program == REGARD:
        teachers = [folder(one, options.log) for one in training.teachers]
        return ours.train(training, files(training, options), place, parts=parts, teachers=teachers)
    return peers.train(training, files(training, options), place, parts=parts, options=options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", nargs="+", choices=[*THEMES, "table"], metavar="WHAT", help=f"{', '.join(THEMES)}, table"
    )
    parser.add_argument(
        "--log", type=Path, default=Path("runs/small_data/log.jsonl"), help="read first, and appended to"
    )
    parser.add_argument("--plan", type=Path, default=HERE / "plan.yaml")
    parser.add_argument("--g2p", type=Path, metavar="FOLDER", help="LANG_train.tsv, LANG_dev.tsv, LANG_test.tsv")
    parser.add_argument(
        "--inflection", type=Path, metavar="FOLDER", help="LANG-train-high, LANG-dev, LANG-uncovered-test"
    )
    parser.add_argument("--languages", default="", help="of the plan's, with commas between")
    parser.add_argument("--programs", default="", help="of the plan's, with commas between")
    parser.add_argument("--seeds", default="", help="instead of the plan's, with commas between")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every training of regard")
    parser.add_argument("--test", action="store_true", help="evaluate the test files, too")
    parser.add_argument("--dry-run", action="store_true", help="name the trainings and do nothing")
    peers.add_options(parser)
    options = parser.parse_args()
    plan, ledger = plans.read(options.plan), Ledger(options.log)
    languages, programs = ([name for name in text.split(",") if name] for text in (options.languages, options.programs))
    seeds = [int(number) for number in options.seeds.split(",") if number]
    failures = 0
    for theme in (what for what in options.what if what != "table"):
        if getattr(options, "inflection" if theme == "inflection" else "g2p") is None:
            parser.error(f"{theme} needs --{'inflection' if theme == 'inflection' else 'g2p'} FOLDER")
        chosen = {"overrides": options.set, "seeds": seeds, "languages": languages, "programs": programs}
        for training in plans.trainings(plan, theme, **chosen):
            done = ledger.find(training)
            if done is not None and not (options.test and "test" not in done):
                continue
            print(training.name, file=sys.stderr, flush=True)
            if options.dry_run:
                continue
            result: dict[str, Any] = {"date": datetime.datetime.now().isoformat(timespec="seconds")}
            try:
                result |= measure(training, options)
            except Failed as error:
                print(error, file=sys.stderr, flush=True)
                result["error"] = str(error)
                failures += 1
            ledger.append(training, result)
    if "table" in options.what:
        print(tables.all_tables(plan, ledger))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
