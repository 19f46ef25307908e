"""Parity with multi-head attention and its relatives in torch, Keras and x-transformers."""

from __future__ import annotations

import pytest
import torch

from golden.parity import Parity, assert_parity
from regard.attention import (
    AdditiveScore,
    CausalWindow,
    Mechanism,
    ProjectedSum,
    ScaledDotScore,
    SoftmaxAlignment,
    WeightedSum,
    luong,
    multi_head,
)


def torch_heads(w):
    """torch keeps one matrix or three, and always one bias."""
    whole = w.get("in_proj_weight")
    matrices = [w[f"{x}_proj_weight"] for x in "qkv"] if whole is None else list(whole.chunk(3))
    names = ["score.query_projection", "score.key_projection", "read.value_projection", "read.output_projection"]
    mapped = dict(zip([f"{name}.weight" for name in names], [*matrices, w["out_proj.weight"]], strict=True))
    if "in_proj_bias" not in w:
        return mapped
    biases = [*w["in_proj_bias"].chunk(3), w["out_proj.bias"]]
    return mapped | dict(zip([f"{name}.bias" for name in names], biases, strict=True))


def keras_heads(w):
    """Keras keeps heads as an axis of every kernel, and inputs first."""
    mapped = {}
    for ours, theirs in {
        "score.query_projection": "query",
        "score.key_projection": "key",
        "read.value_projection": "value",
    }.items():
        mapped[f"{ours}.weight"] = w[f"{theirs}/kernel"].flatten(1).T
        mapped[f"{ours}.bias"] = w[f"{theirs}/bias"].flatten()
    mapped["read.output_projection.weight"] = w["attention_output/kernel"].flatten(0, 1).T
    mapped["read.output_projection.bias"] = w["attention_output/bias"]
    return mapped


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


def x_heads(w):
    names = {
        "score.query_projection": "to_q",
        "score.key_projection": "to_k",
        "read.value_projection": "to_v",
        "read.output_projection": "to_out",
    }
    return {f"{ours}.weight": w[f"attention.{theirs}.weight"] for ours, theirs in names.items()}


def hide_padded_queries(outputs, given, w):
    """x-transformers gives zeros where the query is padding."""
    padding = torch.arange(given["memory"].shape[1]) >= given["lengths"][:, None]
    return outputs | {"context": outputs["context"].masked_fill(padding[..., None], 0)}


def additive():
    return Mechanism(AdditiveScore(6, 6, 6), SoftmaxAlignment(), WeightedSum(6))


def unequal_heads():
    """Keys of 3 and values of 4 a head."""
    return Mechanism(
        ScaledDotScore(5, 6, 6, num_heads=2, bias=True),
        SoftmaxAlignment(),
        ProjectedSum(6, 8, num_heads=2, output_size=6, bias=True),
    )


CASES = [
    Parity(
        "torch_nn/multi_head",
        lambda: multi_head(query_size=8, memory_size=6, size=8, num_heads=2, bias=True),
        torch_heads,
    ),
    Parity(
        "torch_nn/multi_head_unbiased",
        lambda: multi_head(query_size=8, memory_size=6, size=8, num_heads=2),
        torch_heads,
    ),
    Parity(
        "torch_nn/multi_head_causal",
        lambda: multi_head(query_size=8, memory_size=8, size=8, num_heads=2, bias=True, window=CausalWindow()),
        torch_heads,
    ),
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
    Parity("keras/multi_head", unequal_heads, keras_heads),
    Parity(
        "x_transformers/multi_head",
        lambda: multi_head(query_size=8, memory_size=8, size=8, num_heads=2),
        x_heads,
        hide_padded_queries,
    ),
    Parity(
        "x_transformers/causal",
        lambda: multi_head(query_size=8, memory_size=8, size=8, num_heads=2, window=CausalWindow()),
        x_heads,
        hide_padded_queries,
    ),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_torch_keras_and_x_transformers(case, dtype):
    assert_parity(case, dtype)
