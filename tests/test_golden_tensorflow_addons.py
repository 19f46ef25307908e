"""Parity with TensorFlow Addons, the last home of tf.contrib.seq2seq's attention."""

from __future__ import annotations

import pytest
import torch

from golden.parity import Parity, assert_parity
from regard.attention import bahdanau, luong


def additive(w):
    return {
        "score.query_projection.weight": w["query_layer.kernel"].T,
        "score.key_projection.weight": w["memory_layer.kernel"].T,
        "score.v": w["attention_v"][None],
    }


def normalised(w):
    return additive(w) | {"score.query_projection.bias": w["attention_b"], "score.gain": w["attention_g"][None, None]}


def general(w):
    return {"score.key_projection.weight": w["memory_layer.kernel"].T}


def scaled(w):
    return general(w) | {"score.dot.scale": w["scale_weight"]}


CASES = [
    Parity("tensorflow_addons/bahdanau", lambda: bahdanau(query_size=5, memory_size=6, size=4), additive),
    Parity(
        "tensorflow_addons/bahdanau_normalize",
        lambda: bahdanau(query_size=5, memory_size=6, size=4, normalised=True),
        normalised,
    ),
    Parity("tensorflow_addons/luong", lambda: luong(query_size=5, memory_size=6), general),
    Parity("tensorflow_addons/luong_scale", lambda: luong(query_size=5, memory_size=6, learned_scale=True), scaled),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_tensorflow_addons(case, dtype):
    assert_parity(case, dtype)
