"""Where attention leaves its track on inputs that are longer than in training.

    python benchmarks/lengths/jumps.py runs/keep/copy-general-1 runs/data/copy-40.tsv
    python benchmarks/lengths/jumps.py runs/keep/copy-general-1 runs/data/copy-40.tsv --side right --symbols 5

Reads a trained model (`generalise.py --keep`) and a file of its task whose outputs keep the order of the inputs, and
prints the share of outputs that are right, and for the first step of each alignment that goes back or on by more than
two positions the medians of where it was and where it goes. With `--side` the half of each position's vector that reads
from that side is computed as if the input began or ended `--symbols` symbols away.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sequences import read
from torch import Tensor

import regard
from regard.decoding import Search


def limit(encoder: Any, side: str, symbols: int) -> None:
    """Lets an encoder of two directions see `symbols` symbols on one side of each position."""
    encode = encoder.encode

    def limited(inputs: Tensor, mask: Tensor | None = None) -> Any:
        whole = encode(inputs, mask)
        memory, half, places = whole.memory.clone(), whole.memory.shape[2] // 2, torch.arange(inputs.shape[1])
        real = torch.full((len(inputs),), inputs.shape[1]) if mask is None else mask.sum(1)
        for place in places.tolist():
            if side == "right":
                seen = places[None] < real.clamp(max=place + symbols)[:, None]
                memory[:, place, half:] = encode(inputs, seen).memory[:, place, half:]
            else:
                first = max(0, place - symbols)
                seen = places[None, first:] < real[:, None]
                memory[:, place, :half] = encode(inputs[:, first:], seen).memory[:, place - first, :half]
        return replace(whole, memory=memory)

    encoder.encode = encoder.forward = limited


def main() -> None:
    """Prints a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--side", choices=("left", "right"))
    parser.add_argument("--symbols", type=int, default=5)
    options = parser.parse_args()
    model: Any = regard.load(str(options.model))
    if options.side is not None:
        limit(model.module.encoder, options.side, options.symbols)
    inputs, references = read(options.data)
    predicted = model.predict(inputs, search=Search(beam=1))
    right = np.mean([each.text == reference for each, reference in zip(predicted, references, strict=True)])
    jumps = []
    for each in predicted:
        track = each.alignment.argmax(1).tolist()
        found = [(before, after) for before, after in pairwise(track) if not 0 <= after - before <= 2]
        jumps += found[:1]
    print(f"{right:.0%} right, {len(inputs) - len(jumps)} of {len(inputs)} without a jump", end="")
    if jumps:
        before, after = np.median(jumps, 0)
        print(f"; first jumps (medians) from position {before:g} to {after:g}", end="")
    print()


if __name__ == "__main__":
    main()
