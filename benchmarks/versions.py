"""Turn by turn with another version of regard: what users wait for, and every case of `bench.py`.

    git worktree add ../regard-before 77951ab
    python benchmarks/versions.py --before ../regard-before > versions.md
    python benchmarks/versions.py --before ../regard-before --only train search --threads 2
    python benchmarks/versions.py --before ../regard-before --check

Each version is a process of its own, which prepares a case and then has its turn while the other one waits. As memory
lies elsewhere in every process, which alone makes some loops faster or slower, the processes are started anew several
times. Commands are whole processes: their CPU seconds and their largest memory. `--check` compares the losses of 50
steps of plain gradient descent of every preset, and the outputs of `g2p-en` for 3,000 words. Both versions do the cases
of this checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

HERE = Path(__file__).resolve()
TURN = 0.1
"""The least seconds of a turn; a fast case is called several times in it."""
WORDS = 3_000
COMMANDS = {
    "command/version": ["--version"],
    "command/predict-one-word": ["predict", "--model", "g2p-en", "attention"],
    "command/predict-3000-words": ["predict", "--model", "g2p-en", "--input", "{folder}/words.txt"],
    "command/train-g2p": [
        *("train", "--preset", "g2p", "--output", "{folder}/run", "--overwrite", "--set", "training.max_steps=100"),
        *("--set", "training.device=cpu", "--set", "data.train={folder}/spellings.tsv"),
    ],
}


def serve(folder: Path) -> None:
    """Answers each line on stdin: a case's name prepares it, an empty one is answered with its seconds for a step."""
    import gc
    import math
    import time
    from contextlib import suppress
    from importlib import import_module

    import torch
    from preset_cases import NAMES, job, losses
    from preset_data import DATA

    cases: dict[str, Any] = {}
    with suppress(ImportError):  # a version in which modules have other names
        cases = import_module("speed.cases").CASES

    from regard.training.allocator import keep_memory

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    keep_memory()
    print(*NAMES, *(f"bench/{name}" for name in cases), *(f"losses/{name}" for name in DATA), flush=True)

    def seconds(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls

    call, made, calls = (lambda: None), 1, 1
    for line in sys.stdin:
        name = line.strip()
        kind, _, rest = name.partition("/")
        if kind == "losses":
            print(json.dumps(losses(rest, folder)), flush=True)
        elif name:
            call, made = (lambda: None), 1  # frees the case before
            gc.enable()
            gc.collect()
            if kind == "bench":
                case = cases[rest]
                call = case.contest(torch.float32, case.sized(quick=False)).sides["regard"]
            else:
                call, made = job(name, folder)
            call()
            gc.disable()
            calls = max(1, math.ceil(TURN / seconds(1)))
            print("ready", flush=True)
        else:
            print(seconds(calls) / made, flush=True)


class Version:
    """A process of one version.

    Args:
        source: the folder that has `regard` in it.
        folder: of the data.
    """

    def __init__(self, source: Path, folder: Path, threads: int) -> None:
        self.environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), "--serve", str(folder)],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.cases = self._read().split()

    def ask(self, line: str) -> str:
        """Its answer to a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._read()

    def end(self) -> None:
        """The process ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def command(name: str, source: Path, folder: Path, threads: int) -> tuple[float, float, bytes]:
    """CPU seconds, peak MB and the output of a command."""
    words = [sys.executable, "-m", "regard", *(word.format(folder=folder) for word in COMMANDS[name])]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(words, env=environment, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            errors.seek(0)
            sys.exit(f"{name} failed with {source}:\n{errors.read().decode()}")
        output.seek(0)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output.read()


def row(name: str, pairs: Sequence[tuple[float, float]], unit: float) -> str:
    """A line of the table."""
    ratios = [after / before for before, after in pairs]
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    before, after = (unit * median(values) for values in zip(*pairs, strict=True))
    return (
        f"| {name} | {before:.3f} | {after:.3f} | {median(ratios):.3f} | {low:.3f} to {high:.3f} "
        f"| {min(ratios):.3f} to {max(ratios):.3f} |"
    )


def compare(sources: Sequence[Path], folder: Path, options: argparse.Namespace) -> None:
    """Prints a table of ms for every case, and of CPU seconds and MB for every command."""
    seconds: dict[str, list[tuple[float, float]]] = {}
    for start in range(options.starts):
        versions = [Version(source, folder, options.threads) for source in sources]
        for name in versions[1].cases:
            if name not in versions[0].cases or name.startswith("losses/") or not name.startswith(options.only):
                continue
            for version in versions:
                version.ask(name)
            for turn in range(options.turns):
                order = versions if (start + turn) % 2 else versions[::-1]
                taken = {version: float(version.ask("")) for version in order}
                seconds.setdefault(name, []).append((taken[versions[0]], taken[versions[1]]))
            print(f"{name}, start {start + 1} of {options.starts}", file=sys.stderr)
        for version in versions:
            version.end()
    heading = "before | after | after / before: median | quartiles | least and most |\n|---|---|---|---|---|---|"
    print(f"| case, ms | {heading}")
    for name, pairs in seconds.items():
        print(row(name, pairs, 1e3), flush=True)
    names = [name for name in COMMANDS if name.startswith(options.only)]
    if names:
        print(f"\n| command | {heading}")
    for name in names:
        taken = [[command(name, source, folder, options.threads)[:2] for source in sources] for _ in range(4)][1:]
        for place, what in enumerate(("CPU seconds", "MB")):
            print(row(f"{name}, {what}", [(a[place], b[place]) for a, b in taken], 1), flush=True)


def check(sources: Sequence[Path], folder: Path, options: argparse.Namespace) -> None:
    """Prints the largest relative difference of losses by preset, and how many outputs are equal."""
    versions = [Version(source, folder, options.threads) for source in sources]
    print("| preset | losses of the first and last of 50 steps | largest relative difference |\n|---|---|---|")
    for name in (name for name in versions[1].cases if name.startswith("losses/")):
        before, after = (json.loads(version.ask(name)) for version in versions)
        worst = max(abs(a - b) / max(abs(b), 1e-12) for b, a in zip(before, after, strict=True))
        print(f"| {name.removeprefix('losses/')} | {after[0]:.4f}, {after[-1]:.4f} | {worst:.1e} |", flush=True)
    for version in versions:
        version.end()
    outputs = [command("command/predict-3000-words", source, folder, options.threads)[2] for source in sources]
    lines = [output.splitlines() for output in outputs]
    print(f"\nOutputs of g2p-en that are equal: {sum(map(bytes.__eq__, *lines)):,} of {len(lines[0]):,}")


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of the other version")
    parser.add_argument("--only", nargs="*", default=[""], help="beginnings of names of cases; all")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5, help="of every start")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="compare numbers rather than times")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    if options.before is None:
        parser.error("--before is needed")
    options.only = tuple(options.only)
    sources = [options.before.resolve() / "src", HERE.parents[1] / "src"]
    with tempfile.TemporaryDirectory() as folder:
        from preset_data import path_of, vocabulary

        spellings = path_of("g2p", Path(folder))
        words = vocabulary(WORDS, 3, 14)
        (Path(folder) / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        assert spellings.exists()
        (check if options.check else compare)(sources, Path(folder), options)


if __name__ == "__main__":
    main()
