"""Parity with SpeechBrain's attentions."""

from __future__ import annotations

import pytest
import torch

from golden.parity import Parity, assert_parity
from regard.attention import (
    AdditiveScore,
    Mechanism,
    ProjectedSum,
    ScaledDotScore,
    SoftmaxAlignment,
    WeightedSum,
    location_sensitive,
)


def additive(w, part="score"):
    """Both biases are one."""
    return {
        f"{part}.query_projection.weight": w["mlp_dec.weight"],
        f"{part}.query_projection.bias": w["mlp_dec.bias"] + w["mlp_enc.bias"],
        f"{part}.key_projection.weight": w["mlp_enc.weight"],
        f"{part}.v": w["mlp_attn.weight"],
    }


def output_layer(outputs, given, w):
    context = torch.nn.functional.linear(outputs["context"], w["mlp_out.weight"], w["mlp_out.bias"])
    return outputs | {"context": context}


def located(w):
    """So are the biases of the location layer."""
    content = additive(w, "score.content")
    return content | {
        "score.content.query_projection.bias": w["mlp_dec.bias"] + w["mlp_enc.bias"] + w["mlp_loc.bias"],
        "score.filters.weight": w["conv_loc.weight"],
        "score.location_projection": w["mlp_loc.weight"].T[None],
    }


def key_value(w):
    """The values are not projected again, so our output layer is the identity."""
    names = {"score.query_projection": "query", "score.key_projection": "key", "read.value_projection": "value"}
    mapped = {
        f"{ours}.{kind}": w[f"{name}_linear.{kind}"] for ours, name in names.items() for kind in ("weight", "bias")
    }
    one = torch.eye(5, dtype=w["key_linear.bias"].dtype)
    return mapped | {"read.output_projection.weight": one, "read.output_projection.bias": torch.zeros_like(one[0])}


CASES = [
    Parity(
        "speechbrain/content_based",
        lambda: Mechanism(AdditiveScore(5, 6, 4, bias=True), SoftmaxAlignment(), WeightedSum(6)),
        additive,
        output_layer,
    ),
    Parity(
        "speechbrain/location_aware",
        lambda: location_sensitive(
            query_size=5, memory_size=6, size=4, num_filters=3, kernel_size=3, like="speechbrain"
        ),
        located,
        output_layer,
    ),
    Parity(
        "speechbrain/key_value",
        lambda: Mechanism(ScaledDotScore(5, 6, 4, bias=True), SoftmaxAlignment(), ProjectedSum(6, 5, bias=True)),
        key_value,
    ),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_speechbrain(case, dtype):
    assert_parity(case, dtype)
