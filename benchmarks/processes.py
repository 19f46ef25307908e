"""Symbols a second of a training, and lines a second of a prediction, by one process and by several.

    python benchmarks/processes.py [--processes 2] [--steps 300] [--lines 1000000]

Trains a small model (bidirectional GRU of 2 times 128, additive attention) to reverse digits, once with one process
that has all threads and once with several that share them, and compares the weights; then predicts that many short
lines and prints the largest memory of any process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

CONFIG = """\
data: {{train: pairs.tsv, dev_fraction: 0.02, source: {{units: character}}, target: {{units: character}}}}
model: {{encoder: {{layers: 1, size: 128}}, decoder: {{size: 256}}, attention: {{recipe: bahdanau, size: 128}}}}
training: {{max_steps: {steps}, epochs: 1000, batch_tokens: 4096, validate_every: {steps}, \
  log_every: {steps}, samples: 0, device: cpu}}
decoding: {{beam: 1}}
"""
PEAK = "import resource, sys; from regard.cli import run; status = run(sys.argv[1:]); "
PEAK += "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(status)"


def regard(count: int, *arguments: str) -> tuple[float, float]:
    """Runs the command line in so many processes: seconds, and MB of the largest."""
    threads = str(max((os.cpu_count() or 1) // count, 1))
    Path("peak.py").write_text(PEAK)
    one = ["peak.py", *arguments]
    command = [sys.executable, *one]
    if count > 1:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}", *one]
    began = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": threads}, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    return seconds, max(int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("peak ")) / 1024


def train(count: int) -> np.ndarray:
    seconds, peak = regard(count, "train", "small.yaml", "--output", f"by{count}")
    last = [json.loads(line) for line in Path(f"by{count}/metrics.jsonl").read_text().splitlines()]
    pace = next(line["timing"]["symbols_per_second"] for line in reversed(last) if line["kind"] == "train")
    print(f"train    {count} process(es): {pace:>10,.0f} symbols/s, {seconds:6.1f} s in all, {peak:,.0f} MB")
    return np.concatenate([value.ravel() for value in load_file(f"by{count}/model.safetensors").values()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lines", type=int, default=1_000_000)
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        texts = ["".join(map(str, random.integers(0, 10, random.integers(4, 30)))) for _ in range(20_000)]
        Path("pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts))
        Path("small.yaml").write_text(CONFIG.format(steps=asked.steps))
        weights = [train(count) for count in (1, asked.processes)]
        print(f"         weights differ by {np.abs(weights[0] - weights[1]).max():.1e} at most")
        for lines in sorted({asked.lines // 10, asked.lines}):
            with Path("many.txt").open("w") as file:
                file.writelines(f"{number * 7919 % 1000}\n" for number in range(lines))
            for count in (1, asked.processes):
                arguments = ("predict", "--model", "by1", "--input", "many.txt", "--output", f"{count}.tsv")
                Path(f"{count}.tsv").unlink(missing_ok=True)
                seconds, peak = regard(count, *arguments)
                print(f"predict  {count} process(es): {lines / seconds:>10,.0f} lines/s of {lines:,}, {peak:,.0f} MB")
            same = Path("1.tsv").read_bytes() == Path(f"{asked.processes}.tsv").read_bytes()
            print(f"         the outputs are {'the same' if same else 'NOT the same'}")


if __name__ == "__main__":
    main()
