"""Lines a second of `regard predict` by workers of a Ray cluster on this machine, and by as many processes by hand.

    python benchmarks/ray_predict.py [--lines 12000] [--workers 2] [--rounds 3] [--steady]

Each way predicts a third of the lines and all of them, with one thread for each process; the difference of both times
is free of the start, which is printed too. By hand the file is divided, each process predicts its part, and the outputs
are put together. With `--steady` workers and processes begin once, and predict all lines in turn, in each round; the
shortest time counts, for a machine that has other work.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

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


GROUP = 250
"""The lines of a group in a steady measurement."""


def groups(lines: Sequence[str]) -> list[list[str]]:
    return [[line.rstrip() for line in lines[at : at + GROUP]] for at in range(0, len(lines), GROUP)]


def answer(connection: Any) -> None:
    """Predicts groups in a process of its own until there are none."""
    import torch

    import regard

    torch.set_num_threads(1)
    model = regard.load(MODEL, device="cpu")
    with suppress(EOFError):  # the end of the measurement
        while True:
            part = connection.recv()
            connection.send([[each.text for each in model.predict(group, alignment=False)] for group in part])


def steady(lines: Sequence[str], count: int, rounds: int) -> None:
    """Prints the lines a second of workers and processes that have begun."""
    import regard
    from regard.runs.cluster import connected
    from regard.runs.workers import WorkerPool

    whole, model = groups(lines), regard.load(MODEL, device="cpu")
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(count)]
    processes = [context.Process(target=answer, args=(pipe,), daemon=True) for _, pipe in pipes]
    for process in processes:
        process.start()

    def predict(group: list[str]) -> list[str]:
        return [each.text for each in model.predict(group, alignment=False)]

    def by_pipes(number: int) -> list[list[str]]:
        size = -(-len(whole) // number)
        parts = [whole[at : at + size] for at in range(0, len(whole), size)]
        for (pipe, _), part in zip(pipes, parts, strict=False):
            pipe.send(part)
        return [group for (pipe, _), _ in zip(pipes, parts, strict=False) for group in pipe.recv()]

    with connected(count) as cluster, WorkerPool(cluster, model, predict, name=str, tell=print) as pool:
        ways: dict[str, Callable[[], list[list[str]]]] = {
            "one process": lambda: by_pipes(1),
            f"{count} processes by hand": lambda: by_pipes(count),
            f"Ray, {count} workers": lambda: list(pool.in_order(whole)),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        outputs = {name: way() for name, way in ways.items()}  # everything has begun
        for _ in range(rounds):
            for name, way in ways.items():
                began = time.perf_counter()
                way()
                times[name].append(time.perf_counter() - began)
    for name, seconds in times.items():
        print(
            f"{name:24} {len(lines) / min(seconds):8,.0f} lines/s at best, {statistics.median(seconds):6.2f} s median"
        )
    print(f"the outputs are {'the same' if len(set(map(str, outputs.values()))) == 1 else 'NOT the same'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=12_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steady", action="store_true")
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnoprstuvwxyz"))
    lines = ["".join(random.choice(letters, random.integers(3, 12))) + "\n" for _ in range(asked.lines)]
    if asked.steady:
        steady(lines, asked.workers, asked.rounds)
        return
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
