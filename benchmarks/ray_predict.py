"""Lines a second of `regard predict` by workers of a Ray cluster on this machine, and by as many processes by hand.

    python benchmarks/ray_predict.py [--lines 12000] [--workers 2] [--rounds 3]

Each way predicts a third of the lines and all of them, with one thread for each process; the difference of both times
is free of the start, which is printed too. By hand the file is divided, each process predicts its part, and the outputs
are put together.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

MODEL = "g2p-en"


def regard(source: str, output: str, *further: str) -> subprocess.Popen[bytes]:
    """Starts a prediction."""
    command = [sys.executable, "-m", "regard", "predict", "--model", MODEL, "--input", source, "--output", output]
    return subprocess.Popen(
        [*command, "--overwrite", *further], env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )


def wait(*processes: subprocess.Popen[bytes]) -> None:
    if any(process.wait() for process in processes):
        raise SystemExit("a prediction has failed")


def by_hand(lines: Sequence[str], count: int, output: str) -> None:
    size = -(-len(lines) // count)
    names = [f"part{number}" for number in range(count)]
    for number, name in enumerate(names):
        Path(f"{name}.txt").write_text("".join(lines[number * size : (number + 1) * size]))
    wait(*(regard(f"{name}.txt", f"{name}.tsv") for name in names))
    Path(output).write_bytes(b"".join(Path(f"{name}.tsv").read_bytes() for name in names))


def by_ray(lines: Sequence[str], count: int, output: str) -> None:
    Path("whole.txt").write_text("".join(lines))
    wait(regard("whole.txt", output, "--on", "ray", "--workers", str(count)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=12_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnoprstuvwxyz"))
    lines = ["".join(random.choice(letters, random.integers(3, 12))) + "\n" for _ in range(asked.lines)]
    ways: dict[str, tuple[Callable[[Sequence[str], int, str], None], int]] = {
        "one process": (by_hand, 1),
        "Ray, 1 worker": (by_ray, 1),
        f"{asked.workers} processes by hand": (by_hand, asked.workers),
        f"Ray, {asked.workers} workers": (by_ray, asked.workers),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for _ in range(asked.rounds):
            for name, (predict, count) in ways.items():
                seconds = []
                for part in (lines[: len(lines) // 3], lines):
                    began = time.perf_counter()
                    predict(part, count, f"{name}.tsv")
                    seconds.append(time.perf_counter() - began)
                times[name].append((seconds[0], seconds[1]))
        outputs = {Path(f"{name}.tsv").read_bytes() for name in ways}
    extra = len(lines) - len(lines) // 3
    for name, pairs in times.items():
        slope = statistics.median(whole - third for third, whole in pairs)
        start = statistics.median(third - (whole - third) / 2 for third, whole in pairs)
        whole = statistics.median(whole for _, whole in pairs)
        print(f"{name:24} {extra / slope:8,.0f} lines/s, start {start:5.1f} s, {len(lines):,} lines in {whole:6.1f} s")
    print(f"the outputs are {'the same' if len(outputs) == 1 else 'NOT the same'}")


if __name__ == "__main__":
    main()
