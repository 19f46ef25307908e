"""Keras 3.15 on torch: LSTMs and `AdditiveAttention` over the whole target, compiled, trained by `train_on_batch`.

It has no decoder that feeds attention back, so all steps run at once, and no beam search.
"""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
from keras import layers
from layer import forward_backward
from sizes import CLIP_NORM, LEARNING_RATE, ids


class Attention(layers.Layer):
    """The layer with the projections that additive attention has elsewhere."""

    def __init__(self, size):
        super().__init__()
        self.query, self.keys = layers.Dense(size, use_bias=False), layers.Dense(size, use_bias=False)
        self.attention = layers.AdditiveAttention()

    def call(self, queries, memory):
        return self.attention([self.query(queries), memory, self.keys(memory)])


def model(size):
    width = size["D"]
    source, inputs = keras.Input((size["S"],), dtype="int64"), keras.Input((size["T"],), dtype="int64")
    embedded = layers.Embedding(size["N"], size["E"])(source)
    forward = layers.LSTM(width, return_sequences=True, return_state=True)
    memory, h, c, h2, c2 = layers.Bidirectional(forward)(embedded)
    first = [
        layers.Dense(width, activation=kind)(layers.Concatenate()([a, b]))
        for kind, a, b in (("tanh", h, h2), (None, c, c2))
    ]
    states = layers.LSTM(width, return_sequences=True)(
        layers.Embedding(size["N"], size["E"])(inputs), initial_state=first
    )
    context = Attention(width)(states, memory)
    output = layers.Dense(width, activation="tanh")(layers.Concatenate()([states, context]))
    made = keras.Model([source, inputs], layers.Dense(size["N"])(output))
    made.compile(
        keras.optimizers.Adam(LEARNING_RATE, global_clipnorm=CLIP_NORM),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
    )
    return made


def jobs(size, layer, threads):
    torch.set_num_threads(threads)
    keras.utils.set_random_seed(1)
    trained = model(size)
    source = ids(size["B"], size["S"], size["N"], 1)
    target = ids(size["B"], size["T"] + 1, size["N"], 2)
    fed, wanted = [torch.from_numpy(source), torch.from_numpy(target[:, :-1])], torch.from_numpy(target[:, 1:])
    attention = Attention(layer["D"])
    attention(*(torch.zeros(1, 1, layer["D"]) for _ in range(2)))
    return keras.__version__, {
        "training": lambda: trained.train_on_batch(fed, wanted),
        "layer": forward_backward(attention, attention, layer),
    }
