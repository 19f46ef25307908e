"""Parity with attentions of speech synthesis: NVIDIA, Coqui, bshall, LeoniusChen, and forward attention's author."""

from __future__ import annotations

import pytest
import torch

from golden.parity import Parity, assert_parity
from regard.attention import (
    AdditiveScore,
    ForwardAlignment,
    InEvaluation,
    LocationScore,
    Mechanism,
    SigmoidAlignment,
    StepwiseAlignment,
    WeightedSum,
    bahdanau,
    dynamic_convolution,
    forward_attention,
    gmm,
    location_sensitive,
)
from regard.interop.windows import argmax_window

SIZES = {"query_size": 5, "memory_size": 6}
LOCATION = SIZES | {"size": 4, "num_filters": 3, "kernel_size": 3}
DYNAMIC = SIZES | {"size": 4, "static_filters": 3, "static_kernel": 5, "dynamic_filters": 2, "dynamic_kernel": 5}


def additive(memory_layer, part="score"):
    """`Linear` layers of layers; `v.bias` adds the same to every energy, which a softmax does not see."""

    def weights(w):
        return {
            f"{part}.query_projection.weight": w["query_layer.linear_layer.weight"],
            f"{part}.key_projection.weight": w[f"{memory_layer}.linear_layer.weight"],
            f"{part}.v": w["v.linear_layer.weight"],
        }

    return weights


def located(memory_layer, convolution):
    def weights(w):
        return additive(memory_layer, "score.content")(w) | {
            "score.filters.weight": w[f"location_layer.{convolution}.weight"],
            "score.location_projection": w["location_layer.location_dense.linear_layer.weight"].T[None],
        }

    return weights


nvidia = located("memory_layer", "location_conv.conv")
coqui_additive = additive("inputs_layer")
coqui_located = located("inputs_layer", "location_conv1d")


def coqui_unmoved(w):
    return {name.replace("score.", "score.location."): value for name, value in coqui_located(w).items()}


def smoothed(weights):
    """A sigmoid sees the bias of v."""
    return lambda w: weights(w) | {"alignment.bias": w["v.linear_layer.bias"].squeeze(0)}


def with_agent(w):
    return coqui_additive(w) | {
        "alignment.agent.output.weight": w["ta.weight"],
        "alignment.agent.output.bias": w["ta.bias"],
    }


def graves(w):
    names = {"score.hidden": "N_a.0", "score.parameters_of_mixture": "N_a.2"}
    return {f"{ours}.{kind}": w[f"{theirs}.{kind}"] for ours, theirs in names.items() for kind in ("weight", "bias")}


def dynamic(query, chosen, static, static_layer, dynamic_layer):
    """The names of the five layers; v is v everywhere."""

    def weights(w):
        return {
            "score.query_projection.weight": w[f"{query}.weight"],
            "score.query_projection.bias": w[f"{query}.bias"],
            "score.filter_projection.weight": w[f"{chosen}.weight"],
            "score.static_filters.weight": w[f"{static}.weight"],
            "score.static_projection": w[f"{static_layer}.weight"].T[None],
            "score.dynamic_projection": w[f"{dynamic_layer}.weight"].T[None],
            "score.bias": w[f"{dynamic_layer}.bias"][None],
            "score.v": w["v.weight"],
        }

    return weights


coqui_dynamic = dynamic("query_layer", "key_layer", "static_filter_conv", "static_filter_layer", "dynamic_filter_layer")
bshall_dynamic = dynamic("W", "V", "F", "U", "T")


def leonius(part="score"):
    """Its keys are projected already, so our layer is the identity."""

    def weights(w):
        return {
            f"{part}.query_projection.weight": w["query_layer.weight"],
            f"{part}.key_projection.weight": torch.eye(4),
            f"{part}.v": w["v.weight"],
        }

    return weights


def leonius_located(w):
    """The bias of its filters comes through the location layer."""
    return leonius("score.content")(w) | {
        "score.content.query_projection.bias": w["L.weight"] @ w["conv.bias"],
        "score.filters.weight": w["conv.weight"],
        "score.location_projection": w["L.weight"].T[None],
    }


def leonius_mixture(w):
    names = {"score.hidden": "mlp.0", "score.parameters_of_mixture": "mlp.2"}
    return {f"{ours}.{kind}": w[f"{theirs}.{kind}"] for ours, theirs in names.items() for kind in ("weight", "bias")}


def leonius_stepwise(w):
    return leonius("score")(w) | {"alignment.bias": 0 * w["v.weight"].sum()}


def without_keys(inputs):
    return {name: value for name, value in inputs.items() if name != "keys"}


def cumulative(state):
    return {"cumulative": state.score.cumulative[:, 0]}


def move(state):
    return {"u": state.alignment.move}


def means(state):
    return {"mu_prev": state.score[:, 0]}


def after_the_first(outputs, given, w):
    return {"context": outputs["context"][:, 1:], "alignment": outputs["alignment"][:, :, 1:]}


def smooth_additive():
    return Mechanism(AdditiveScore(5, 6, 4), SigmoidAlignment(normalised=True, bias=0.0), WeightedSum(6))


def logarithmic():
    return Mechanism(
        LocationScore(5, 6, 4, location="both", num_filters=3, kernel_size=3, bias=False),
        ForwardAlignment(),
        WeightedSum(6),
    )


def forward(**options):
    return lambda: forward_attention(**SIZES, size=4, score="additive", like="coqui", **options)


def mixture(version):
    return lambda: gmm(**SIZES, size=4, num_components=3, version=version)


def keyed_location():
    score = LocationScore(5, 4, 4, num_filters=3, kernel_size=3)
    return Mechanism(score, location_sensitive(**LOCATION).alignment, WeightedSum(6))


def stepwise():
    return Mechanism(AdditiveScore(5, 4, 4), StepwiseAlignment(remaining="lost"), WeightedSum(6))


CASES = [
    Parity("nvidia_tacotron2/attention", lambda: location_sensitive(**LOCATION, like="nvidia"), nvidia),
    Parity("zhang_forward/forward", logarithmic, nvidia),
    Parity("coqui/original", lambda: bahdanau(**SIZES, size=4), coqui_additive),
    Parity("coqui/original_sigmoid", smooth_additive, smoothed(coqui_additive)),
    Parity(
        "coqui/original_windowed",
        lambda: bahdanau(**SIZES, size=4, window=InEvaluation(argmax_window("coqui"))),
        coqui_additive,
        after_the_first,
        differentiable=False,
    ),
    Parity(
        "coqui/location",
        lambda: location_sensitive(**LOCATION, like="coqui", alignment="softmax"),
        coqui_located,
        state=cumulative,
    ),
    Parity(
        "coqui/location_sigmoid",
        lambda: location_sensitive(**LOCATION, like="coqui"),
        smoothed(coqui_located),
        state=cumulative,
    ),
    Parity("coqui/forward", forward(), coqui_additive, state=move),
    Parity(
        "coqui/forward_location",
        lambda: forward_attention(**LOCATION, like="coqui"),
        coqui_unmoved,
        state=lambda state: move(state) | {"cumulative": state.score.trace.cumulative[:, 0]},
    ),
    Parity("coqui/forward_agent", forward(transition_agent=True), with_agent, state=move),
    Parity("coqui/graves", lambda: gmm(**SIZES, num_components=3, like="coqui"), graves, state=means),
    Parity(
        "coqui/graves_padded",
        lambda: gmm(**SIZES, num_components=3, like="coqui"),
        graves,
        state=means,
        differentiable=False,
    ),
    Parity("coqui/dynamic_convolution", lambda: dynamic_convolution(**DYNAMIC), coqui_dynamic),
    Parity(
        "coqui/dynamic_convolution_padded",
        lambda: dynamic_convolution(**DYNAMIC, like="coqui"),
        coqui_dynamic,
        differentiable=False,
    ),
    Parity("bshall_tacotron/dynamic_convolution", lambda: dynamic_convolution(**DYNAMIC), bshall_dynamic),
    Parity(
        "leonius_chen/dynamic_convolution", lambda: dynamic_convolution(**DYNAMIC), bshall_dynamic, given=without_keys
    ),
    Parity("leonius_chen/location", keyed_location, leonius_located),
    Parity("leonius_chen/stepwise_long", stepwise, leonius_stepwise),
    Parity("leonius_chen/gmm_v0", mixture("V0"), leonius_mixture, given=without_keys),
    Parity("leonius_chen/gmm_v1", mixture("V1"), leonius_mixture, given=without_keys),
    Parity("leonius_chen/gmm_v2", mixture("V2"), leonius_mixture, given=without_keys),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_speech_synthesis(case, dtype):
    assert_parity(case, dtype)
