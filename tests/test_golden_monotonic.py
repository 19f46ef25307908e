"""Parity of attention that only moves forward: monotonic readers of TensorFlow Addons and of neural_sp."""

from __future__ import annotations

import pytest
import torch

from golden.archive import load
from golden.parity import TOLERANCE, Parity, assert_parity, relative
from regard import ops
from regard.attention import (
    AdditiveScore,
    BilinearScore,
    ChunkwiseAlignment,
    Mechanism,
    MonotonicAlignment,
    ProjectedSum,
    ScaledDotScore,
    WeightedSum,
)
from regard.interop.tfa.mechanisms.monotonic import ClippedMonotonicAlignment as Clipped


def addons_additive(w):
    return {
        "score.query_projection.weight": w["query_layer.kernel"].T,
        "score.query_projection.bias": w["attention_b"],
        "score.key_projection.weight": w["memory_layer.kernel"].T,
        "score.v": w["attention_v"][None],
        "score.gain": w["attention_g"][None, None],
        "alignment.bias": w["attention_score_bias"],
    }


def addons_dot(w):
    return {
        "score.key_projection.weight": w["memory_layer.kernel"].T,
        "score.dot.scale": w["attention_g"],
        "alignment.bias": w["attention_score_bias"],
    }


def reader(score, alignment=MonotonicAlignment, **options):
    return lambda: Mechanism(score(), alignment(**options), WeightedSum(6))


def normalised():
    return AdditiveScore(5, 6, 4, normalised=True)


def scaled():
    return BilinearScore(5, 6, scale=None)


ADDONS = [
    Parity("tensorflow_addons/bahdanau_monotonic_recursive", reader(normalised), addons_additive),
    Parity("tensorflow_addons/bahdanau_monotonic_parallel", reader(normalised, Clipped), addons_additive),
    Parity("tensorflow_addons/bahdanau_monotonic_hard", reader(normalised, hard="always"), addons_additive),
    Parity("tensorflow_addons/luong_monotonic_recursive", reader(scaled), addons_dot),
    Parity("tensorflow_addons/luong_monotonic_parallel", reader(scaled, Clipped), addons_dot),
    Parity("tensorflow_addons/luong_monotonic_hard", reader(scaled, hard="always"), addons_dot),
]


def neural(w):
    """neural_sp divides by √ of the whole width; where a head is half as wide, that is √2 less than ours."""
    heads = 2 if "w_out.weight" in w else 1
    reader = "alignment.reader" if "chunk_energy.w_key.weight" in w else "alignment"
    mapped = {f"{reader}.bias": w["monotonic_energy.r"].squeeze(0)}
    for ours, theirs in {"score": "monotonic_energy", "alignment.chunk_score": "chunk_energy"}.items():
        if f"{theirs}.w_key.weight" in w:
            for kind in ("weight", "bias"):
                mapped[f"{ours}.query_projection.{kind}"] = w[f"{theirs}.w_query.{kind}"] / heads**0.5
                mapped[f"{ours}.key_projection.{kind}"] = w[f"{theirs}.w_key.{kind}"]
    if heads > 1:
        for ours, theirs in {"value": "w_value", "output": "w_out"}.items():
            for kind in ("weight", "bias"):
                mapped[f"read.{ours}_projection.{kind}"] = w[f"{theirs}.{kind}"]
    return mapped


def dot(heads=1):
    return ScaledDotScore(5, 6, 4, num_heads=heads, bias=True)


def chunkwise(chunk_size, heads=1):
    read = WeightedSum(6) if heads == 1 else ProjectedSum(6, 4, num_heads=heads, output_size=6, bias=True)
    return lambda: Mechanism(dot(heads), ChunkwiseAlignment(dot(heads), chunk_size=chunk_size), read)


def stops(state):
    """α, which is carried; β is what is read."""
    return {"stops": state.alignment}


def steps_last(outputs, given, w):
    return outputs | {"stops": outputs["stops"].transpose(1, 2)}


CHUNKS = [
    Parity("neural_sp/monotonic", reader(dot), neural, steps_last, stops),
    Parity("neural_sp/mocha", chunkwise(3), neural, steps_last, stops),
    Parity("neural_sp/infinite_lookback", chunkwise(None), neural, steps_last, stops),
    Parity("neural_sp/mocha_two_heads", chunkwise(2, heads=2), neural, steps_last, stops),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", [*ADDONS, *CHUNKS], ids=str)
def test_outputs_and_gradients_are_those_of_the_original(case, dtype):
    assert_parity(case, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_the_recursion_keeps_the_mass_that_the_parallel_form_of_addons_loses(dtype):
    golden = load("tensorflow_addons", "parallel_long", dtype)
    given = golden.inputs["choose"], golden.inputs["previous"]
    exact, clipped = ops.expected_monotonic_alignment(*given), ops.clipped_monotonic_alignment(*given)
    assert relative(exact.sum(1), golden.outputs["mass_exact"]) <= TOLERANCE[dtype]
    assert relative(clipped.sum(1), golden.outputs["mass_parallel"]) <= TOLERANCE[dtype]
    assert exact.sum(1).min() > 0.99
    assert clipped.sum(1).max() < 0.17
