"""Goldens of Keras' attention layers.

Program: keras 3.15.1 with its torch backend, on torch 2.13.0 (CPU).

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy keras==3.15.1
    KERAS_BACKEND=torch OMP_NUM_THREADS=1 peers/bin/python tests/golden/keras/make.py

With this backend Keras turns results of 64 bits into 32; the table in which it says so is emptied of float64.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"

import torch
from keras import config, layers
from keras.src.backend.common import dtypes

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import BATCH, LENGTHS, MEMORY, SOURCE, decoder_inputs, draw, record


class Layer:
    """A layer that is built, with its weights named by their path inside it."""

    def __init__(self, kind, query_size: int, memory_size: int, **options) -> None:
        precision = str(torch.get_default_dtype()).removeprefix("torch.")
        config.set_floatx(precision)
        self.layer = kind(dtype=precision, **options)
        memory = torch.zeros(BATCH, SOURCE, memory_size)
        query = torch.zeros(BATCH, 5, query_size)
        if kind in (layers.Attention, layers.AdditiveAttention):
            self.layer([query, memory])
        else:
            self.layer(query, memory)

    def named_parameters(self):
        return [(weight.path.partition("/")[2], weight.value) for weight in self.layer.weights]


def mask_of(memory, lengths):
    return torch.arange(memory.shape[1]) < lengths[:, None]


def listed(layer, queries, memory, lengths):
    """Layers that take a list of query and value."""
    mask = [None, mask_of(memory, lengths)]
    context, weights = layer.layer([queries, memory], mask=mask, return_attention_scores=True)
    return {"context": context, "alignment": weights[:, None]}


def headed(layer, queries, memory, lengths):
    mask = mask_of(memory, lengths)[:, None].expand(-1, queries.shape[1], -1)
    context, weights = layer.layer(queries, memory, attention_mask=mask, return_attention_scores=True)
    return {"context": context, "alignment": weights}


def main() -> None:
    del dtypes.BIT64_TO_BIT32_DTYPE["float64"]
    inputs = decoder_inputs()
    same = inputs | {"queries": draw(8, BATCH, 5, MEMORY)}
    for name, options in {
        "dot": {},
        "dot_scaled": {"use_scale": True},
        "concat": {"score_mode": "concat", "use_scale": True},
    }.items():
        record(
            f"keras/{name}",
            lambda options=options: Layer(layers.Attention, MEMORY, MEMORY, **options),
            listed,
            same,
        )
    record("keras/additive", lambda: Layer(layers.AdditiveAttention, MEMORY, MEMORY), listed, same)
    wide = {"queries": draw(8, BATCH, 5, 5), "memory": draw(9, BATCH, SOURCE, MEMORY), "lengths": LENGTHS}
    record(
        "keras/multi_head",
        lambda: Layer(layers.MultiHeadAttention, 5, MEMORY, num_heads=2, key_dim=3, value_dim=4, output_shape=6),
        headed,
        wide,
    )
    record(
        "keras/grouped_query",
        lambda: Layer(layers.GroupQueryAttention, 5, MEMORY, head_dim=3, num_query_heads=4, num_key_value_heads=2),
        headed,
        wide,
    )


if __name__ == "__main__":
    main()
