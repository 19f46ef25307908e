"""Golden of forward attention by its author.

Program: jxzhanggg/nonparaSeq2seqVC_code at commit 4c03a6b, `fine-tune/model/basic_layers.ForwardAttentionV2`, on torch
2.13.0 (CPU).

    git clone https://github.com/jxzhanggg/nonparaSeq2seqVC_code
    git -C nonparaSeq2seqVC_code checkout 4c03a6b
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/zhang_forward/make.py nonparaSeq2seqVC_code

The recursion is carried as log α, without normalising and without an epsilon: (α_t-1(n) + α_t-1(n-1)) exp(e_t(n)). Its
decoder starts with log α = 0 at the first position and -1e20 elsewhere, and feeds previous and cumulative weights,
zeros at first, to the location layer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import MEMORY, QUERY, decoder_inputs, record


def run(attention, queries, memory, lengths):
    hidden = torch.arange(memory.shape[1]) >= lengths[:, None]
    keys = attention.memory_layer(memory)
    last = total = memory.new_zeros(memory.shape[:2])
    log_alpha = memory.new_full(memory.shape[:2], -1e20)
    log_alpha[:, 0] = 0
    contexts, alignments = [], []
    for query in queries.unbind(1):
        seen = torch.stack([last, total], 1)
        context, last, log_alpha = attention(query, memory, keys, seen, hidden, log_alpha)
        total = total + last
        contexts.append(context)
        alignments.append(last)
    return {"context": torch.stack(contexts, 1), "alignment": torch.stack(alignments, 1)[:, None]}


def main() -> None:
    sys.path.insert(0, f"{sys.argv[1]}/fine-tune/model")
    from basic_layers import ForwardAttentionV2

    record("zhang_forward/forward", lambda: ForwardAttentionV2(QUERY, MEMORY, 4, 3, 3), run, decoder_inputs())


if __name__ == "__main__":
    main()
