"""Words a second of `regard predict`, by several models or versions turn by turn: one thread, beam 5, start left out.

python benchmarks/g2p/rates.py words.txt before=g2p-en@../regard-before now=runs/g2p-en [--turns 5]

A model is NAME=MODEL, or NAME=MODEL@CHECKOUT to run it by another checkout of regard. A turn is the time for all words
less the time for the first 500. Medians of the turns are printed, and how fast each is relative to the first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[2]
FEW = 500


def seconds(words: Path, model: str, checkout: str) -> float:
    """How long the command takes, start and all."""
    environment = {**os.environ, "PYTHONPATH": str(Path(checkout or HERE) / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", "predict", "--model", model, "--input", words, "--beam", "5"]
    begun = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", type=Path, help="one a line")
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL[@CHECKOUT]")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    models = {name: place.partition("@")[::2] for name, _, place in (one.partition("=") for one in options.models)}
    found: dict[str, list[float]] = {name: [] for name in models}
    lines = options.words.read_text(encoding="utf-8").splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        few = Path(folder, "few.txt")
        few.write_text("".join(lines[:FEW]), encoding="utf-8")
        for _ in range(options.turns):
            for name, (model, checkout) in models.items():
                spent = seconds(options.words, model, checkout) - seconds(few, model, checkout)
                found[name].append((len(lines) - FEW) / spent)
    medians = {name: statistics.median(rates) for name, rates in found.items()}
    first = next(iter(medians.values()))
    print("| model | words a second | least to most | times the first |\n|---|---:|---:|---:|")
    for name, rates in found.items():
        row = (f"{medians[name]:,.0f}", f"{min(rates):,.0f} to {max(rates):,.0f}", f"{medians[name] / first:.2f}")
        print(f"| {name} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
