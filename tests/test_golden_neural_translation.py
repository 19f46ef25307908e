"""Parity with the attentions of translation toolkits: Joey NMT, OpenNMT-py and IBM's pytorch-seq2seq."""

from __future__ import annotations

import pytest
import torch

from golden.parity import Parity, assert_parity
from regard.attention import AdditiveScore, Mechanism, SoftmaxAlignment, WeightedSum, bahdanau, luong


def attentional_state(activation=None):
    """What OpenNMT-py and IBM give out instead of the context: a layer over [context; query]."""

    def finish(outputs, given, w):
        joined = torch.cat([outputs["context"], given["queries"]], -1)
        output = torch.nn.functional.linear(joined, w["linear_out.weight"], w.get("linear_out.bias"))
        return outputs | {"output": output if activation is None else activation(output)}

    return finish


def joey_additive(w):
    return {
        "score.query_projection.weight": w["query_layer.weight"],
        "score.key_projection.weight": w["key_layer.weight"],
        "score.v": w["energy_layer.weight"],
    }


def biased_additive():
    return Mechanism(AdditiveScore(8, 8, 8, bias=True), SoftmaxAlignment(), WeightedSum(8))


def mlp(w):
    return {
        "score.query_projection.weight": w["linear_query.weight"],
        "score.query_projection.bias": w["linear_query.bias"],
        "score.key_projection.weight": w["linear_context.weight"],
        "score.v": w["v.weight"],
    }


CASES = [
    Parity("joeynmt/bahdanau", lambda: bahdanau(query_size=5, memory_size=6, size=4), joey_additive),
    Parity(
        "joeynmt/luong",
        lambda: luong(query_size=5, memory_size=6),
        lambda w: {"score.key_projection.weight": w["key_layer.weight"]},
    ),
    Parity(
        "ibm_seq2seq/attention",
        lambda: luong(query_size=6, memory_size=6, score="dot"),
        lambda w: {},
        attentional_state(torch.tanh),
    ),
    Parity(
        "opennmt/dot",
        lambda: luong(query_size=8, memory_size=8, score="dot"),
        lambda w: {},
        attentional_state(torch.tanh),
    ),
    Parity(
        "opennmt/general",
        lambda: luong(query_size=8, memory_size=8),
        lambda w: {"score.key_projection.weight": w["linear_in.weight"].T},
        attentional_state(torch.tanh),
    ),
    Parity(
        "opennmt/general_sparsemax",
        lambda: luong(query_size=8, memory_size=8, alignment="sparsemax"),
        lambda w: {"score.key_projection.weight": w["linear_in.weight"].T},
        attentional_state(torch.tanh),
        differentiable=False,
    ),
    Parity("opennmt/mlp", biased_additive, mlp, attentional_state()),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_translation_toolkits(case, dtype):
    assert_parity(case, dtype)
