"""Parity with ESPnet's RNN attentions.

The bias of its last layer (`gvec.bias`) adds the same number to every energy, which a softmax does not see: its
gradient is zero in both. The key's bias, and that of the coverage, are our only one.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import pad

from golden.parity import Parity, assert_parity
from regard.attention import (
    AdditiveScore,
    LocationScore,
    Mechanism,
    ProjectedSum,
    SoftmaxAlignment,
    TanhDotScore,
    WeightedSum,
    coverage,
    forward_attention,
    location_sensitive,
)
from regard.interop.windows import argmax_window


def additive(w, part="score"):
    return {
        f"{part}.query_projection.weight": w["mlp_dec.weight"],
        f"{part}.query_projection.bias": w["mlp_enc.bias"],
        f"{part}.key_projection.weight": w["mlp_enc.weight"],
        f"{part}.v": w["gvec.weight"],
    }


def located(w):
    return additive(w, "score.content") | {
        "score.filters.weight": w["loc_conv.weight"].squeeze(1),
        "score.location_projection": w["mlp_att.weight"].T[None],
    }


def covered(w):
    content = additive(w, "score.content")
    return content | {
        "score.content.query_projection.bias": w["mlp_enc.bias"] + w["wvec.bias"],
        "score.coverage_projection": w["wvec.weight"].T,
    }


def every_head(w, name):
    """The layers of both heads, one above the other."""
    return torch.cat([w[name.format(head)] for head in range(2)])


def many_additive(w, part="score"):
    return {
        f"{part}.query_projection.weight": every_head(w, "mlp_q.{}.weight"),
        f"{part}.query_projection.bias": every_head(w, "mlp_q.{}.bias"),
        f"{part}.key_projection.weight": every_head(w, "mlp_k.{}.weight"),
        f"{part}.v": every_head(w, "gvec.{}.weight"),
        "read.value_projection.weight": every_head(w, "mlp_v.{}.weight"),
        "read.output_projection.weight": w["mlp_o.weight"],
    }


def many_located(w):
    """Where heads have filters of their own widths, the shorter ones are longer ones with zeros at both ends."""
    kernels = [w[f"loc_conv.{head}.weight"].flatten(1, 2) for head in range(2)]
    widest = max(kernel.shape[2] for kernel in kernels)
    return many_additive(w, "score.content") | {
        "score.filters.weight": torch.cat([pad(k, ((widest - k.shape[2]) // 2,) * 2) for k in kernels]),
        "score.location_projection": torch.stack([w[f"mlp_att.{head}.weight"].T for head in range(2)]),
    }


def bounded(w):
    names = {"query": "mlp_dec", "key": "mlp_enc"}
    return {
        f"score.content.{ours}_projection.{kind}": w[f"{theirs}.{kind}"]
        for ours, theirs in names.items()
        for kind in ("weight", "bias")
    }


def many_bounded(w):
    """Its keys have no bias."""
    return {
        "score.content.query_projection.weight": every_head(w, "mlp_q.{}.weight"),
        "score.content.query_projection.bias": every_head(w, "mlp_q.{}.bias"),
        "score.content.key_projection.weight": every_head(w, "mlp_k.{}.weight"),
        "score.content.key_projection.bias": torch.zeros(8),
        "read.value_projection.weight": every_head(w, "mlp_v.{}.weight"),
        "read.output_projection.weight": w["mlp_o.weight"],
    }


def agent(w):
    """It tells the probability to stay."""
    return located(w) | {f"alignment.agent.output.{kind}": -w[f"mlp_ta.{kind}"] for kind in ("weight", "bias")}


def stay(state):
    return {"stay": 1 - state.alignment.move}


SIZES = {"query_size": 5, "memory_size": 6, "size": 4}
LOCATION = SIZES | {"num_filters": 3, "kernel_size": 3}


def location(**options):
    return lambda: location_sensitive(**LOCATION, like="espnet", **options)


def forward(**options):
    return forward_attention(**LOCATION, like="espnet", **options)


def forward_with_agent():
    return forward(input_size=2, transition_agent=True)


def many(score, sharpening):
    return Mechanism(score, SoftmaxAlignment(sharpening=sharpening), ProjectedSum(6, 6, num_heads=2))


def many_location(kernel_size):
    return LocationScore(
        5, 6, 8, num_heads=2, location="previous", num_filters=3, kernel_size=kernel_size, first_alignment="uniform"
    )


CASES = [
    Parity(
        "espnet/att_dot",
        lambda: Mechanism(TanhDotScore(5, 6, 4), SoftmaxAlignment(sharpening=4.0), WeightedSum(6)),
        bounded,
    ),
    Parity("espnet/att_multi_head_dot", lambda: many(TanhDotScore(5, 6, 8, num_heads=2), 1.0), many_bounded),
    Parity(
        "espnet/att_add",
        lambda: Mechanism(AdditiveScore(5, 6, 4, bias=True), SoftmaxAlignment(sharpening=2.0), WeightedSum(6)),
        additive,
    ),
    Parity("espnet/att_loc", location(location="previous"), located),
    Parity("espnet/att_loc_cumulative", location(), located),
    Parity("espnet/att_loc_constrained", location(location="previous", window=argmax_window("espnet")), located),
    Parity("espnet/att_loc2d", location(location="previous", num_previous=3), located),
    Parity("espnet/att_cov", lambda: coverage(**SIZES, like="espnet"), covered),
    Parity("espnet/att_cov_loc", location(accumulate_first=True), located),
    Parity("espnet/att_forward", forward, located),
    Parity("espnet/att_forward_padded", forward, located, differentiable=False),
    Parity("espnet/att_forward_ta", forward_with_agent, agent, state=stay),
    Parity("espnet/att_forward_ta_padded", forward_with_agent, agent, state=stay, differentiable=False),
    Parity(
        "espnet/att_multi_head_add",
        lambda: many(AdditiveScore(5, 6, 8, num_heads=2, bias=True), 0.5),
        many_additive,
    ),
    Parity("espnet/att_multi_head_loc", lambda: many(many_location(3), 2.0), many_located),
    Parity("espnet/att_multi_head_multi_res_loc", lambda: many(many_location(5), 0.5), many_located),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_espnet(case, dtype):
    assert_parity(case, dtype)
