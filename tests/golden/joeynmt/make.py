"""Goldens of Joey NMT's attentions.

Program: joeynmt 2.3.0, `joeynmt.attention`, on torch 2.13.0 (CPU).

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    peers/bin/pip install --no-deps joeynmt==2.3.0
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/joeynmt/make.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from joeynmt.attention import BahdanauAttention, LuongAttention

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import MEMORY, QUERY, decoder_inputs, record


def run(attention, queries, memory, lengths):
    mask = (torch.arange(memory.shape[1]) < lengths[:, None])[:, None]
    attention.compute_proj_keys(memory)
    looks = [attention(query[:, None], mask, memory) for query in queries.unbind(1)]
    return {
        "context": torch.cat([context for context, _ in looks], 1),
        "alignment": torch.cat([weights for _, weights in looks], 1)[:, None],
    }


def main() -> None:
    inputs = decoder_inputs()
    record("joeynmt/bahdanau", lambda: BahdanauAttention(4, MEMORY, QUERY), run, inputs)
    record("joeynmt/luong", lambda: LuongAttention(QUERY, MEMORY), run, inputs)


if __name__ == "__main__":
    main()
