"""Goldens of neural_sp's monotonic chunkwise attention.

Program: hirofumi0810/neural_sp at commit b91877c, `neural_sp.models.modules.mocha.mocha.MoChA`, on torch 2.13.0 (CPU).

    git clone https://github.com/hirofumi0810/neural_sp && git -C neural_sp checkout b91877c
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/neural_sp/make.py neural_sp

Scores are scaled dot products, divided by the root of the whole width. Noise is off (`noise_std=0`); the mode is
`parallel`, which it trains with. Only rows without padding are kept: in padding its clamp of 1e-5 counts as energy.
Weights are small because it divides by no less than 1e-6, which costs mass after a few likely stops.
`alignment` is what is read (β, or α where the chunk is one position), `stops` is α.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import MEMORY, QUERY, decoder_inputs, record

WIDTH = 4


def run(attention, queries, memory):
    attention.reset()
    everywhere = torch.ones(*queries.shape[:2], memory.shape[1], dtype=torch.bool)
    context, stops, kept = attention(memory, memory, queries, everywhere, mode="parallel")
    return {"context": context, "alignment": stops if kept["beta"] is None else kept["beta"], "stops": stops}


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    from neural_sp.models.modules.mocha.mocha import MoChA

    inputs = {name: value for name, value in decoder_inputs().items() if name != "lengths"}

    def attention(chunk_size, heads=1):
        return lambda: MoChA(MEMORY, QUERY, WIDTH, MEMORY, "scaled_dot", chunk_size, n_heads_mono=heads, noise_std=0.0)

    record("neural_sp/monotonic", attention(1), run, inputs, scale=0.3)
    record("neural_sp/mocha", attention(3), run, inputs, scale=0.3)
    record("neural_sp/infinite_lookback", attention(-1), run, inputs, scale=0.3)
    record("neural_sp/mocha_two_heads", attention(2, heads=2), run, inputs, scale=0.3)


if __name__ == "__main__":
    main()
