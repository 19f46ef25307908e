"""Compares models of another program with what `regard convert` makes of them, on 200 inputs.

The program runs in an environment of its own (`benchmarks/peers/environments.py`), where a script trains small models
and answers questions: log-probabilities, outputs and scores. It answers for each sentence by itself; ours are predicted
in batches.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
from environments import ENVIRONMENTS, python
from numerals import pairs, write

from regard.data.text import BOS
from regard.interop import convert
from regard.tasks import load
from regard.tasks.encoded import pad

HERE = Path(__file__).parent
COLUMNS = (
    "model",
    "parameters",
    "largest difference of log-probabilities",
    "greedy outputs equal",
    "beam outputs equal",
    "of the others, ours better",
    "least gain",
)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")


@dataclass(frozen=True)
class Program:
    """What is compared.

    Args:
        kind: as `regard convert` calls it.
        environment: of `environments.py`; None for the one that this runs in.
        script: trains and answers, in this folder.
        cases: the names of its models.
        model: the path of a model in the folder of its case.
        specials: its names of padding, begin, end and unknown.
        max_length: the most symbols of an output; None: as its models were converted.
    """

    kind: str
    environment: str | None
    script: str
    cases: Sequence[str]
    model: Callable[[Path], Path]
    specials: Sequence[str] = ("<blank>", "<s>", "</s>", "<unk>")
    max_length: int | None = 60


def main(program: Program) -> None:
    """Trains what is not there, converts, compares, and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("runs") / "conversion", help="of environments and models")
    parser.add_argument("--cases", nargs="*", default=program.cases)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    where, name = Path(sys.executable), program.kind
    if program.environment is not None:
        where = python(program.environment, arguments.folder / "environments", torch.__version__.split("+")[0])
        name = ENVIRONMENTS[program.environment].program
    print(f"{name}, torch {torch.__version__}, {machine()}, {date.today()}\n")
    print(f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}")
    for case in arguments.cases:
        folder = (arguments.folder / program.kind / case).resolve()
        print(_compared(program, where, case, folder), flush=True)


def machine() -> str:
    return f"{os.cpu_count()} cores of {platform.processor() or platform.machine()}, one thread"


def _compared(program: Program, where: Path, case: str, folder: Path) -> str:
    """The row of a case."""
    path = program.model(folder)
    if not path.exists():
        write(folder)
        ask(where, program, "train", case, folder)
    convert(program.kind, path, folder / "converted", overwrite=True)
    model = load(folder / "converted", device="cpu")
    tests = pairs("test")
    answers = _answers(where, program, path, folder, [{"source": s, "target": t} for s, t in tests])
    symbols = [SPECIALS[program.specials.index(s)] if s in program.specials else s for s in answers["symbols"]]
    arrays = np.load(folder / "said.npz", allow_pickle=False)
    difference = max(
        _difference(model, source, answer["target"], arrays[str(number)], symbols)
        for number, ((source, _), answer) in enumerate(zip(tests, answers["answers"], strict=True))
    )
    sources = [source for source, _ in tests]
    settings = model.config.decoding
    if program.max_length is not None:
        settings = settings.replace(max_length=program.max_length)
    greedy = _outputs(model, sources, settings.replace(beam=1))
    beam = _outputs(model, sources, settings.replace(beam=5))
    equal = sum(list(a["greedy"]) == list(o) for a, o in zip(answers["answers"], greedy, strict=True))
    others = [i for i, a in enumerate(answers["answers"]) if list(a["beam"]) != list(beam[i])]
    asked = [{"source": sources[i], "hypotheses": [beam[i]]} for i in others]
    scores = _answers(where, program, path, folder, asked)["answers"] if others else []
    gains = [scores[n][0] - answers["answers"][i]["score"] for n, i in enumerate(others)]
    better = sum(gain > 1e-4 for gain in gains)
    worst = f"{min(gains):+.1e}" if gains else "none"
    count = len(tests)
    row = (
        case,
        f"{model.num_parameters:,}",
        f"{difference:.1e}",
        f"{equal} of {count}",
        f"{count - len(others)} of {count}",
        f"{better} of {len(others)}",
        worst,
    )
    return f"| {' | '.join(row)} |"


def _difference(model, source: str, target: Sequence[str], theirs: np.ndarray, symbols: Sequence[str]) -> float:
    """The largest difference of log-probabilities (T, N), teacher-forced, of the symbols that ours may predict."""
    ids = model.source.encode(source).ids
    inputs = torch.tensor([[BOS, *model.target.vocabulary.ids(target)]])
    with torch.inference_mode():
        batch, _ = pad([ids], end=model.source_end)
        ours = model.module.decoder(inputs, model.module.prepare(batch)).log_probabilities[0]
    numbers = [SPECIALS.index(s) if s in SPECIALS else model.target.vocabulary.number(s) for s in symbols]
    said = ours[:, numbers]
    kept = torch.isfinite(said).all(0)
    assert kept.sum() >= len(symbols) - 2
    return float((said - torch.from_numpy(theirs))[:, kept].abs().max())


def _outputs(model, sources: Sequence[str], decoding) -> list[tuple[list[str], bool]]:
    """The symbols of each output, without the end symbol, and whether it ended."""
    found = model.predict(sources, search=decoding, alignment=False)
    return [[p.tokens[: len(p.tokens) - (p.stop_reason == "eos")], p.stop_reason == "eos"] for p in found]


def _answers(where: Path, program: Program, path: Path, folder: Path, questions: list) -> dict:
    (folder / "asked.json").write_text(json.dumps(questions), encoding="utf-8")
    ask(where, program, "say", path, folder / "asked.json", folder / "said.json")
    return json.loads((folder / "said.json").read_text(encoding="utf-8"))


def ask(where: Path, program: Program, *words) -> None:
    """Runs the script in the program's environment."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [where, HERE / program.script, *map(str, words)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr[-2000:])
