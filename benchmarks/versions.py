"""Every case of `regard bench`, turn by turn with another version of regard.

    git worktree add ../regard-before 77951ab
    python benchmarks/versions.py --before ../regard-before > versions.md

Each version is a process of its own with one thread, which prepares a case and then has its turn while the other one
waits. As memory lies elsewhere in every process, which alone makes some loops faster or slower, the processes are
started anew several times.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

HERE = Path(__file__).resolve()
TURN = 0.1
"""The least seconds of a turn; a fast case is called several times in it."""


def serve() -> None:
    """Answers each line on stdin: a case's name prepares it, an empty one is answered with its seconds for a call."""
    import gc
    import math
    import time

    import torch

    from regard.bench.case import OURS
    from regard.bench.cases import CASES

    torch.set_num_threads(1)
    gc.disable()
    print(*CASES, flush=True)

    def seconds(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            side()
        return (time.perf_counter() - start) / calls

    for line in sys.stdin:
        if name := line.strip():
            gc.collect()
            case = CASES[name]
            side = case.contest(torch.float32, case.sized(quick=False)).sides[OURS]
            side()
            calls = max(1, math.ceil(TURN / seconds(1)))
            print("ready", flush=True)
        else:
            print(seconds(calls), flush=True)


class Version:
    """A process of one version.

    Args:
        source: the folder that has `regard` in it.
    """

    def __init__(self, source: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), "--serve"],
            env=environment,
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


def compare(before: Path, *, starts: int, turns: int, names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Seconds of a call before and after, for every case and turn."""
    seconds: dict[str, list[tuple[float, float]]] = {}
    for start in range(starts):
        versions = [Version(before / "src"), Version(HERE.parents[1] / "src")]
        for name in names or [name for name in versions[1].cases if name in versions[0].cases]:
            for version in versions:
                version.ask(name)
            for turn in range(turns):
                order = versions if (start + turn) % 2 else versions[::-1]
                taken = {version: float(version.ask("")) for version in order}
                seconds.setdefault(name, []).append((taken[versions[0]], taken[versions[1]]))
            print(f"{name}, start {start + 1} of {starts}", file=sys.stderr)
        for version in versions:
            version.end()
    return seconds


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases; all that both versions have")
    parser.add_argument("--before", type=Path, help="a checkout of the other version")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5, help="of every start")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.before is None:
        parser.error("--before is needed")
    seconds = compare(options.before.resolve(), starts=options.starts, turns=options.turns, names=options.names)
    print("| case | before, ms | after, ms | after / before: median | quartiles | least and most |")
    print("|---|---|---|---|---|---|")
    for name, pairs in seconds.items():
        ratios = [after / before for before, after in pairs]
        low, _, high = quantiles(ratios, n=4, method="inclusive")
        before, after = (1e3 * median(times) for times in zip(*pairs, strict=True))
        print(
            f"| {name} | {before:.3f} | {after:.3f} | {median(ratios):.3f} | {low:.3f} to {high:.3f} "
            f"| {min(ratios):.3f} to {max(ratios):.3f} |"
        )


if __name__ == "__main__":
    main()
