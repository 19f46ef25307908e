"""Goldens of torch's own attention.

Program: torch 2.13.0 (CPU), `torch.nn.MultiheadAttention` and `scaled_dot_product_attention` with `enable_gqa`.

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/torch_nn/make.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import BATCH, LENGTHS, MEMORY, SOURCE, decoder_inputs, draw, record

SIZE, HEADS = 8, 2


def masked(memory, lengths):
    return torch.arange(memory.shape[1]) >= lengths[:, None]


def cross(module, queries, memory, lengths):
    context, weights = module(
        queries, memory, memory, key_padding_mask=masked(memory, lengths), average_attn_weights=False
    )
    return {"context": context, "alignment": weights}


def causal(module, memory, lengths):
    future = torch.ones(memory.shape[1], memory.shape[1], dtype=torch.bool).triu(1)
    context, weights = module(
        memory,
        memory,
        memory,
        key_padding_mask=masked(memory, lengths),
        attn_mask=future,
        average_attn_weights=False,
    )
    return {"context": context, "alignment": weights}


def grouped(_, query, key, value, lengths):
    allowed = ~masked(key[:, 0], lengths)[:, None, None]
    return {"context": scaled_dot_product_attention(query, key, value, attn_mask=allowed, enable_gqa=True)}


def main() -> None:
    inputs = decoder_inputs()
    inputs["queries"] = draw(8, BATCH, 5, SIZE)

    def attention(bias):
        return lambda: nn.MultiheadAttention(SIZE, HEADS, bias=bias, kdim=MEMORY, vdim=MEMORY, batch_first=True)

    record("torch_nn/multi_head", attention(True), cross, inputs)
    record("torch_nn/multi_head_unbiased", attention(False), cross, inputs)
    record(
        "torch_nn/multi_head_causal",
        lambda: nn.MultiheadAttention(SIZE, HEADS, batch_first=True),
        causal,
        {"memory": draw(9, BATCH, SOURCE, SIZE), "lengths": LENGTHS},
    )
    record(
        "torch_nn/grouped_query",
        lambda: None,
        grouped,
        {
            "query": draw(12, BATCH, 4, 5, 3),
            "key": draw(13, BATCH, 2, SOURCE, 3),
            "value": draw(14, BATCH, 2, SOURCE, 3),
            "lengths": LENGTHS,
        },
    )


if __name__ == "__main__":
    main()
