"""Golden of IBM's pytorch-seq2seq attention.

Program: IBM/pytorch-seq2seq at commit f146087, `seq2seq/models/attention.py`, on torch 2.13.0 (CPU).

    git clone https://github.com/IBM/pytorch-seq2seq && git -C pytorch-seq2seq checkout f146087
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/ibm_seq2seq/make.py pytorch-seq2seq

The context is not given out: `output` is tanh(linear_out [context; query]).
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import BATCH, LENGTHS, SOURCE, draw, record

SIZE = 6


def run(attention, queries, memory, lengths):
    hidden = (torch.arange(memory.shape[1]) >= lengths[:, None])[:, None].expand(-1, queries.shape[1], -1)
    attention.set_mask(hidden)
    output, weights = attention(queries, memory)
    return {"output": output, "alignment": weights[:, None]}


def main() -> None:
    spec = importlib.util.spec_from_file_location("attention", Path(sys.argv[1], "seq2seq/models/attention.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    inputs = {"queries": draw(8, BATCH, 5, SIZE), "memory": draw(9, BATCH, SOURCE, SIZE), "lengths": LENGTHS}
    record("ibm_seq2seq/attention", lambda: module.Attention(SIZE), run, inputs)


if __name__ == "__main__":
    main()
