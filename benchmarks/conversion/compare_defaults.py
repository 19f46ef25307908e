"""Models of other programs, asked by the commands of those programs and by ours after a conversion, without options.

python benchmarks/conversion/compare_defaults.py

Trains the models of `compare_opennmt.py`, `compare_eole.py`, `compare_joeynmt.py` and `compare_marian.py` that are not
there, translates the first 40 held-out numbers with either program's own defaults, and prints a table.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
import compare_eole
import compare_joeynmt
import compare_marian
import compare_opennmt
from comparison import Program, ask, machine
from environments import ENVIRONMENTS, python
from numerals import pairs, write

SENTENCES = 40
COLUMNS = ("program", "model", "search of the converted model", "outputs equal")


@dataclass(frozen=True)
class Case:
    """A model that is asked.

    Args:
        program: of which it is.
        name: of its training.
        options: of the program's command, beside none.
        settings: sections of `config.yaml` (Joey NMT) or values of `generation_config.json` (transformers) that replace
            those that were saved with it; None: as it was saved.
    """

    program: Program
    name: str
    options: tuple[str, ...] = ()
    settings: dict | None = None


CASES = (
    *(Case(compare_opennmt.PROGRAM, name) for name in ("lstm_general", "transformer")),
    *(Case(compare_eole.PROGRAM, name) for name in ("lstm_general", "transformer")),
    Case(compare_eole.PROGRAM, "lstm_general", ("--batch_size", "1")),
    *(Case(compare_joeynmt.PROGRAM, name, settings={"testing": {}}) for name in ("lstm", "transformer")),
    *(Case(compare_joeynmt.PROGRAM, name) for name in ("lstm", "transformer")),
    *(Case(compare_marian.PROGRAM, name) for name in ("shared", "separate")),
)


def compared(case: Case, folder: Path) -> str:
    """The row of a case."""
    program = case.program
    assert program.environment is not None
    place = (folder / program.kind / case.name).resolve()
    where = python(program.environment, folder / "environments", torch.__version__.split("+")[0])
    path = program.model(place)
    if not path.exists():
        write(place)
        ask(where, program, "train", case.name, place)
    if case.settings is not None:
        path = changed(path, case.settings)
    sources, theirs, ours = (place / f"defaults.{name}" for name in ("num", "theirs", "ours"))
    sources.write_text("".join(f"{source}\n" for source, _ in pairs("test")[:SENTENCES]), encoding="utf-8")
    ask(where, program, "translate", path, sources, theirs, *case.options)
    regard(["convert", program.kind, path, "--output", place / "converted", "--overwrite"])
    regard(
        [
            "predict",
            "--model",
            place / "converted",
            "--input",
            sources,
            "--output",
            ours,
            "--format",
            "text",
            "--overwrite",
        ]
    )
    pair = zip(lines(theirs), lines(ours), strict=True)
    equal = sum(a == b for a, b in pair)
    decoding = yaml.safe_load((place / "converted" / "config.yaml").read_text(encoding="utf-8"))["decoding"]
    named = ("beam", "stop", "length_penalty", "max_length", "max_length_ratio", "max_length_extra", "min_length")
    search = ", ".join(f"{name} {decoding[name]}" for name in named if decoding[name] is not None)
    name = ENVIRONMENTS[program.environment].program.replace("==", " ")
    saved = "" if case.settings is None else ", its settings of searches removed"
    saved += f", {' '.join(case.options)}" if case.options else ""
    return f"| {name} | {case.name}{saved} | {search} | {equal} of {SENTENCES} |"


def changed(path: Path, settings: dict) -> Path:
    """A copy of a model's folder with other settings."""
    copy = path.with_name(f"{path.name}-changed")
    shutil.copytree(path, copy, dirs_exist_ok=True)
    file = copy / "config.yaml"
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**values, **settings, "model_dir": str(copy)}), encoding="utf-8")
    return copy


def regard(words: list) -> None:
    """Runs our command."""
    done = subprocess.run(
        [sys.executable, "-m", "regard", *map(str, words)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)


def lines(path: Path) -> list[str]:
    """The lines of a file, without blanks at their ends."""
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("runs") / "conversion", help="of environments and models")
    parser.add_argument("--kinds", nargs="*", default=sorted({case.program.kind for case in CASES}))
    arguments = parser.parse_args()
    folder = arguments.folder
    print(f"torch {torch.__version__}, {machine()}, {date.today()}\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) - 1)}---:|")
    for case in (case for case in CASES if case.program.kind in arguments.kinds):
        print(compared(case, folder), flush=True)


if __name__ == "__main__":
    main()
