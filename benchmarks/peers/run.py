"""A training step, a beam and an attention layer: regard and every peer, turn by turn, the same sizes and threads.

    python benchmarks/peers/run.py --folder ~/peers --output peers.md

Makes an environment for each peer with pip (about a GB each) unless the folder has it, starts all programs, and lets
one after the other have its turn while the rest wait. Where pip would bring CUDA builds of torch:
PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import torch
from environments import ENVIRONMENTS, python
from sizes import FULL, LAYER, QUICK, QUICK_LAYER
from speed import machine
from speed.clock import Quartiles, ratio
from speed.report import table

HERE = Path(__file__).parent
OURS = "ours"
JOBS = {
    "training": "a whole training step; target tokens a second",
    "beam": "beam search; sentences a second",
    "layer": "an attention layer with its projections, forward and backward; queries a second",
    "words": "a beam over words of 3 to 14 letters, 45 symbols, each output as long as its source; words a second",
    "sentences": "a beam over sentences of 5 to 40 words, each output as long as its source; sentences a second",
}


class Program:
    """A peer, or regard, in a process that waits for its turn."""

    def __init__(self, name: str, interpreter: Path | str, threads: int, *, quick: bool) -> None:
        self.name = name
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        environment["CUDA_VISIBLE_DEVICES"] = ""
        self.process = subprocess.Popen(
            [interpreter, "worker.py", name, str(threads), "quick" if quick else "full"],
            cwd=HERE,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        said = json.loads(self._line())
        self.version, self.jobs = said["version"], said["jobs"]

    def seconds(self, job: str, least: float) -> float:
        """Of one call, over so many seconds at least."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{job} {least}\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended; what it said stands above.")
        return line


def measure(
    programs: Sequence[Program], jobs: Sequence[str], rounds: int, least: float
) -> dict[str, dict[str, list[float]]]:
    """Seconds by job and program, a number each round; another program begins each round."""
    found: dict[str, dict[str, list[float]]] = {}
    for job in jobs:
        able = [program for program in programs if job in program.jobs]
        times: dict[str, list[float]] = {program.name: [] for program in able}
        for number in range(rounds):
            first = number % len(able)
            for program in able[first:] + able[:first]:
                times[program.name].append(program.seconds(job, least))
        found[job] = times
    return found


def rows(
    job: str, threads: int, times: Mapping[str, list[float]], versions: Mapping[str, str], count: int
) -> list[list[object]]:
    """Lines of the table of a job, the fastest program first."""
    lines = []
    for name, seconds in sorted(times.items(), key=lambda item: Quartiles.of(item[1]).median):
        spent, faster = Quartiles.of(seconds), ratio(seconds, times[OURS])
        beside = ["", ""] if name == OURS else [f"{faster.median:.2f} ×", f"{faster.low:.2f} to {faster.high:.2f}"]
        shown = "regard" if name == OURS else ENVIRONMENTS[name].program.partition("==")[0]
        numbers = [f"{1000 * spent.median:.1f}", f"{1000 * spent.low:.1f} to {1000 * spent.high:.1f}"]
        lines.append([threads, f"{shown} {versions[name]}", *numbers, f"{count / spent.median:,.0f}", *beside])
    return lines


def differences(names: Sequence[str]) -> str:
    """What each script says about its program."""
    said = [ast.get_docstring(ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))) or "" for name in names]
    return "\n".join(f"- {' '.join(text.split())}" for text in said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join(ENVIRONMENTS), help="names with commas between")
    parser.add_argument("--folder", type=Path, help="where environments are made and kept; temporary without it")
    parser.add_argument("--threads", default="1,2", help="numbers with commas between")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jobs", default=",".join(JOBS), help="names with commas between")
    parser.add_argument("--quick", action="store_true", help="small sizes and three rounds: does it work?")
    parser.add_argument("--output", type=Path, help="a file instead of stdout")
    parser.add_argument("--append", action="store_true", help="to what is in the file")
    options = parser.parse_args()
    peers = [name for name in options.peers.split(",") if name]
    if unknown := set(peers) - set(ENVIRONMENTS):
        parser.error(f"there is no peer {', '.join(unknown)}; there are {', '.join(ENVIRONMENTS)}")
    size, layer = (QUICK, QUICK_LAYER) if options.quick else (FULL, LAYER)
    rounds, least = (3, 0.01) if options.quick else (options.rounds, 0.3)
    counts = {"training": size["B"] * size["T"], "beam": size["B"], "layer": layer["B"] * layer["T"]}
    counts |= {"words": 4 * size["B"], "sentences": 4 * (size["B"] // 2)}
    jobs = [job for job in options.jobs.split(",") if job]
    if unknown := set(jobs) - set(JOBS):
        parser.error(f"there is no job {', '.join(unknown)}; there are {', '.join(JOBS)}")
    lines: dict[str, list[list[object]]] = {job: [] for job in jobs}
    described = machine.describe()
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        version = torch.__version__.partition("+")[0]
        interpreters = {OURS: Path(sys.executable), **{name: python(name, folder, version) for name in peers}}
        for threads in map(int, options.threads.split(",")):
            programs = []
            for name, interpreter in interpreters.items():
                print(f"{name}, {threads} threads", file=sys.stderr, flush=True)
                programs.append(Program(name, interpreter, threads, quick=options.quick))
            versions = {program.name: program.version for program in programs}
            for job, times in measure(programs, jobs, rounds, least).items():
                lines[job] += rows(job, threads, times, versions, counts[job])
            for program in programs:
                program.close()
    head = ["threads", "program", "ms", "quartiles", "a second", "regard is faster", "quartiles"]
    asked = f"--threads {options.threads} --rounds {rounds}{' --quick' * options.quick}"
    parts = [
        "## Peers, turn by turn with regard",
        f"    python benchmarks/peers/run.py {asked}",
        f"{datetime.date.today()}, {described}.\n"
        f"Medians of {rounds} rounds; models {_shown(size)}, layer {_shown(layer)}.",
        *(f"### {job.capitalize()}: {what}\n\n{table(head, lines[job])}" for job, what in JOBS.items() if job in jobs),
        f"What each does:\n\n{differences([OURS, *peers])}",
    ]
    text = "\n\n".join(parts) + "\n"
    if options.output is None:
        print(text)
        return
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("a" if options.append else "w", encoding="utf-8") as file:
        file.write(("\n" if options.append else "") + text)


def _shown(size: Mapping[str, int]) -> str:
    return " ".join(f"{letter}{number}" for letter, number in size.items())


if __name__ == "__main__":
    main()
