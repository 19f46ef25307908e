"""Parity with ESPnet's RNN attentions.

The bias of its last layer (`gvec.bias`) adds the same number to every energy, which a softmax does not see: its
gradient is zero in both.
"""

from __future__ import annotations

import pytest
import torch

from golden.parity import Parity, assert_parity
from regard.attention import AdditiveScore, Mechanism, ProjectedSum, SoftmaxAlignment, WeightedSum


def additive(w, part="score"):
    """The key's bias is our only one."""
    return {
        f"{part}.query_projection.weight": w["mlp_dec.weight"],
        f"{part}.query_projection.bias": w["mlp_enc.bias"],
        f"{part}.key_projection.weight": w["mlp_enc.weight"],
        f"{part}.v": w["gvec.weight"],
    }


def heads(w, name):
    """The layers of all heads, one above the other."""
    return torch.cat([w[f"{name.format(head)}"] for head in range(2)])


def many_additive(w):
    return {
        "score.query_projection.weight": heads(w, "mlp_q.{}.weight"),
        "score.query_projection.bias": heads(w, "mlp_q.{}.bias"),
        "score.key_projection.weight": heads(w, "mlp_k.{}.weight"),
        "score.v": heads(w, "gvec.{}.weight"),
        "read.value_projection.weight": heads(w, "mlp_v.{}.weight"),
        "read.output_projection.weight": w["mlp_o.weight"],
    }


CASES = [
    Parity(
        "espnet/att_add",
        lambda: Mechanism(AdditiveScore(5, 6, 4, bias=True), SoftmaxAlignment(sharpening=2.0), WeightedSum(6)),
        additive,
    ),
    Parity(
        "espnet/att_multi_head_add",
        lambda: Mechanism(
            AdditiveScore(5, 6, 8, num_heads=2, bias=True),
            SoftmaxAlignment(sharpening=0.5),
            ProjectedSum(6, 6, num_heads=2, output_size=6),
        ),
        many_additive,
    ),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_espnet(case, dtype):
    assert_parity(case, dtype)
