"""Goldens of x-transformers' attention.

Program: x-transformers 2.31.10 on torch 2.13.0 (CPU).

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy x-transformers==2.31.10
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/x_transformers/make.py

`grouped` tiles key-value heads: query head h reads key-value head h mod 2. The T5 bias is multiplied by √ of the width
of a head, as its wrapper does. Rotations and slopes are stored as buffers; for float64 they are built in float64.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from x_transformers.x_transformers import AlibiPositionalBias, Attention, RelativePositionBias, RotaryEmbedding

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import BATCH, LENGTHS, SOURCE, draw, record

WIDE, HEADS, HEAD = 8, 2, 4


class Biased(nn.Module):
    """An attention and the module that gives it positions."""

    def __init__(self, positions: nn.Module | None = None, heads: int = HEADS, head: int = HEAD, **options) -> None:
        super().__init__()
        self.attention = Attention(dim=WIDE, dim_head=head, heads=heads, **options)
        self.positions = positions


def run(module, memory, lengths):
    module.eval()
    mask = torch.arange(memory.shape[1]) < lengths[:, None]
    given = {}
    if isinstance(module.positions, RotaryEmbedding):
        given["rotary_pos_emb"] = module.positions.forward_from_seq_len(memory.shape[1])
    elif module.positions is not None:
        given["rel_pos"] = module.positions
    output, kept = module.attention(memory, mask=mask, return_intermediates=True, **given)
    return {"context": output, "alignment": kept.post_softmax_attn}


def main() -> None:
    inputs = {"memory": draw(9, BATCH, SOURCE, WIDE), "lengths": LENGTHS}

    def bias(heads=HEADS, **options):
        return RelativePositionBias(scale=HEAD**0.5, num_buckets=8, max_distance=6, heads=heads, **options)

    for name, build in {
        "multi_head": Biased,
        "causal": lambda: Biased(causal=True),
        "rotary": lambda: Biased(RotaryEmbedding(HEAD)),
        "rotary_partial": lambda: Biased(RotaryEmbedding(4), head=6),
        "alibi": lambda: Biased(AlibiPositionalBias(HEADS)),
        "alibi_three_heads": lambda: Biased(AlibiPositionalBias(3), heads=3),
        "t5": lambda: Biased(bias()),
        "t5_causal": lambda: Biased(bias(causal=True), causal=True),
        "grouped": lambda: Biased(heads=4, kv_heads=2),
    }.items():
        record(f"x_transformers/{name}", build, run, inputs)


if __name__ == "__main__":
    main()
