"""Parity with Keras' attention of query and memory as they are."""

from __future__ import annotations

import pytest
import torch

from golden.parity import Parity, assert_parity
from regard.attention import AdditiveScore, Mechanism, SoftmaxAlignment, WeightedSum, luong


def unprojected(scale, v):
    """An additive score of query and memory as they are: both maps are multiples of the identity."""

    def weights(w):
        one = torch.eye(6, dtype=next(iter(w.values())).dtype)
        return {
            "score.query_projection.weight": scale(w) * one,
            "score.key_projection.weight": scale(w) * one,
            "score.v": v(w)[None],
        }

    return weights


def additive():
    return Mechanism(AdditiveScore(6, 6, 6), SoftmaxAlignment(), WeightedSum(6))


CASES = [
    Parity("keras/dot", lambda: luong(query_size=6, memory_size=6, score="dot"), lambda w: {}),
    Parity(
        "keras/dot_scaled",
        lambda: luong(query_size=6, memory_size=6, score="dot", learned_scale=True),
        lambda w: {"score.scale": w["scale"]},
    ),
    Parity(
        "keras/concat",
        additive,
        unprojected(lambda w: w["scale"], lambda w: w["concat_score_weight"].expand(6)),
    ),
    Parity("keras/additive", additive, unprojected(lambda w: 1.0, lambda w: w["scale"])),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_keras(case, dtype):
    assert_parity(case, dtype)
