"""The cost of training on two machines: time of a step, of its computation and of its exchange, and the bytes sent.

    python benchmarks/nodes.py [--steps 20] [--presets g2p translation-transformer]        as root, on Linux

Two network namespaces act as machines (`tests/support/network.py`), each with one process of one thread. For each
preset it measures steps of

- one process with the whole batch;
- two processes with half of it each that do not communicate, at the same time: the computation of a step in two;
- two machines by `torchrun`, without a limit, with 1 Gbit/s in each direction, and with `training.sharding: fsdp`;

and an all-reduce of as many numbers as the model has. The bytes of a step are those that the interface of the first
machine has counted; those computed are the 4 bytes of each parameter's gradient, times 2 (N - 1) / N for N machines.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.network import VARIABLES, Network

FIRST = 5
"""Steps that are not counted, as caches are filled."""
TEXTS = {
    "g2p": ("character", 26, 1, 4, 12, 2048),
    "g2p-transformer": ("character", 26, 1, 4, 12, 2048),
    "translation-rnn": ("whitespace", 4000, 1, 8, 30, 2048),
    "translation-transformer": ("whitespace", 4000, 1, 8, 30, 2048),
}
"""By preset: units of the source, different symbols, the least number of a symbol, symbols of a text, batch_tokens."""
LIMIT = "1gbit"


@dataclass
class Pace:
    """Medians over steps: seconds, symbols a second, and the mean of bytes sent in a step."""

    seconds: float
    symbols: float
    sent: float = 0.0


def write(folder: Path, preset: str) -> None:
    """Synthetic pairs: symbols by Zipf's law, and the reversed text as the output."""
    units, number, least, shortest, longest, _ = TEXTS[preset]
    random = np.random.default_rng(0)
    chances = 1 / np.arange(1, number + 1)
    lines = []
    for _ in range(4000):
        ids = random.choice(number, random.integers(shortest, longest), p=chances / chances.sum()) + least - 1
        symbols = [chr(97 + i) if number <= 26 else f"w{i}" for i in ids]
        lines.append(f"{('' if units == 'character' else ' ').join(symbols)}\t{' '.join(reversed(symbols))}\n")
    (folder / f"{preset}.tsv").write_text("".join(lines))


def command(preset: str, name: str, *, share: int = 1, sharding: str = "none") -> list[str]:
    units, *_, tokens = TEXTS[preset]
    values = {
        "data.train": f"{preset}.tsv", "data.source.units": units, "data.target.units": "whitespace",
        "training.batch_tokens": tokens // share, "training.log_every": 1, "training.max_steps": 100_000,
        "training.epochs": 100_000, "training.validate_every": 100_000, "training.device": "cpu",
        "training.sharding": sharding, "select": "teacher_forced_loss",
    }  # fmt: skip
    options = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    return ["-m", "regard", "train", "--preset", preset, "--output", name, *options]


def paces(folder: Path, names: list[str], steps: int, sent=lambda: 0) -> list[Pace]:
    """Waits until runs have made so many steps."""
    marks: list[tuple[int, int]] = []
    deadline = time.monotonic() + 600
    while True:
        logs = [(folder / name / "metrics.jsonl") for name in names]
        entries = [[json.loads(x) for x in log.read_text().splitlines(True) if x.endswith("\n")] if log.exists() else []
                   for log in logs]  # fmt: skip
        if entries[0] and (not marks or marks[-1][0] != len(entries[0])):
            marks.append((len(entries[0]), sent()))
        if min(map(len, entries)) >= FIRST + steps:
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"{names}: too slow, or failed; see {folder}")
        time.sleep(0.02)
    begin = next(mark for mark in marks if mark[0] >= FIRST)
    bytes_of_step = (marks[-1][1] - begin[1]) / max(marks[-1][0] - begin[0], 1)
    timings = [[entry["timing"] for entry in each[FIRST:]] for each in entries]
    return [
        Pace(
            statistics.median(timing["seconds"] for timing in each),
            statistics.median(timing["symbols_per_second"] for timing in each),
            bytes_of_step,
        )
        for each in timings
    ]


def alone(folder: Path, preset: str, steps: int, *, count: int) -> Pace:
    """Steps of so many processes that share nothing, each with its part of the batch."""
    names = [f"{preset} alone {number} of {count}" for number in range(count)]
    started = [
        subprocess.Popen(
            [sys.executable, *command(preset, name, share=count)],
            cwd=folder, env={**os.environ, **VARIABLES}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for name in names
    ]  # fmt: skip
    try:
        each = paces(folder, names, steps)
    finally:
        for process in started:
            process.terminate()  # saves a checkpoint
            process.wait()
    return Pace(max(pace.seconds for pace in each), sum(pace.symbols for pace in each))


def together(network: Network, folder: Path, preset: str, steps: int, name: str, *, sharding: str = "none") -> Pace:
    """Steps of two machines."""
    name = f"{preset} {name}"
    for node in network.nodes:
        node.start(folder, *command(preset, name, sharding=sharding), restarts=0)
    try:
        return paces(folder, [name], steps, lambda: network.nodes[0].sent)[0]
    finally:
        for node in network.nodes:
            node.close()


def all_reduce(network: Network, folder: Path, numbers: int) -> float:
    """Seconds of an all-reduce between two machines."""
    for node in network.nodes:
        node.start(folder, __file__, "--all-reduce", str(numbers), restarts=0)
    status, printed = network.nodes[0].end()
    network.nodes[1].end()
    if status:
        raise SystemExit(printed)
    return float(next(line.split()[1] for line in printed.splitlines() if line.startswith("seconds ")))


def exchange(numbers: int) -> None:
    """An all-reduce, in a process of torchrun."""
    import torch
    from torch import distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(minutes=5))
    values, seconds = torch.randn(numbers), []
    for _ in range(12):
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(values)
        seconds.append(time.perf_counter() - began)
        values /= 2
    print("seconds", statistics.median(seconds[2:]), flush=True)
    dist.destroy_process_group()


def parameters(folder: Path, preset: str) -> int:
    """The parameters of the preset's model, from the checkpoint of the run of one process; tied ones count once."""
    (file,) = folder.glob(f"{preset} alone 0 of 1/checkpoints/step-*/model.safetensors")
    sizes: dict[bytes, int] = {}
    for value in load_file(file).values():
        sizes[value.tobytes()] = value.size
    return sum(sizes.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--presets", nargs="*", default=[*TEXTS], choices=[*TEXTS])
    parser.add_argument("--all-reduce", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.all_reduce:
        exchange(asked.all_reduce)
        return
    print("| preset | parameters | | seconds of a step | symbols/s | MB sent in a step |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name, Network() as network:
        folder = Path(name)
        for preset in asked.presets:
            write(folder, preset)
            one = alone(folder, preset, asked.steps, count=1)
            size = parameters(folder, preset)

            def row(what: str, pace: Pace, preset: str = preset, size: int = size) -> None:
                sent = f"{pace.sent / 1e6:.2f}" if pace.sent else ""
                print(
                    f"| {preset} | {size:,} | {what} | {pace.seconds:.3f} | {pace.symbols:,.0f} | {sent} |", flush=True
                )

            row("one process", one)
            row("two halves without exchange", alone(folder, preset, asked.steps, count=2))
            row("two machines", together(network, folder, preset, asked.steps, "free"))
            row("two machines, fsdp", together(network, folder, preset, asked.steps, "fsdp", sharding="fsdp"))
            free = all_reduce(network, folder, size)
            network.limit(LIMIT)
            row(f"two machines, {LIMIT}", together(network, folder, preset, asked.steps, LIMIT))
            limited = all_reduce(network, folder, size)
            network.unlimit()
            what = f"all-reduce alone, free and {LIMIT} | {free:.3f}, {limited:.3f} | | {4 * size / 1e6:.2f} (computed)"
            print(f"| {preset} | {size:,} | {what} |", flush=True)


if __name__ == "__main__":
    main()
