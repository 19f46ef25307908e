"""Parity with the attentions of Tacotron implementations: NVIDIA's, Coqui's and bshall's."""

from __future__ import annotations

import pytest
import torch

from golden.parity import Parity, assert_parity
from regard.attention import ArgmaxWindow, InEvaluation, bahdanau, location_sensitive


def located():
    return location_sensitive(query_size=5, memory_size=6, size=4, location="both", num_filters=3, kernel_size=3)


def nvidia(w):
    return {
        "score.content.query_projection.weight": w["query_layer.linear_layer.weight"],
        "score.content.query_projection.bias": torch.zeros_like(w["v.linear_layer.weight"][0]),
        "score.content.key_projection.weight": w["memory_layer.linear_layer.weight"],
        "score.content.v": w["v.linear_layer.weight"],
        "score.filters.weight": w["location_layer.location_conv.conv.weight"],
        "score.location_projection": w["location_layer.location_dense.linear_layer.weight"].T[None],
    }


def coqui_additive(w):
    return {
        "score.query_projection.weight": w["query_layer.linear_layer.weight"],
        "score.key_projection.weight": w["inputs_layer.linear_layer.weight"],
        "score.v": w["v.linear_layer.weight"],
    }


def coqui_located(w):
    content = {name.replace("score.", "score.content."): value for name, value in coqui_additive(w).items()}
    return content | {
        "score.content.query_projection.bias": torch.zeros_like(w["v.linear_layer.weight"][0]),
        "score.filters.weight": w["location_layer.location_conv1d.weight"],
        "score.location_projection": w["location_layer.location_dense.linear_layer.weight"].T[None],
    }


def cumulative(state):
    return {"cumulative": state.score.cumulative[:, 0]}


CASES = [
    Parity("nvidia_tacotron2/attention", located, nvidia),
    Parity("coqui/original", lambda: bahdanau(query_size=5, memory_size=6, size=4), coqui_additive),
    Parity(
        "coqui/original_windowed",
        lambda: bahdanau(query_size=5, memory_size=6, size=4, window=InEvaluation(ArgmaxWindow.like("coqui"))),
        coqui_additive,
        lambda outputs, given, w: {"context": outputs["context"][:, 1:], "alignment": outputs["alignment"][:, :, 1:]},
        differentiable=False,
    ),
    Parity("coqui/location", located, coqui_located, state=cumulative),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_tacotron_implementations(case, dtype):
    assert_parity(case, dtype)
