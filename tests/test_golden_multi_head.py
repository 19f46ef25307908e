"""Parity of multi-head attention and what it knows of positions: torch, Keras, x-transformers and others."""

from __future__ import annotations

import pytest
import torch

from golden.parity import Parity, assert_parity
from regard.attention import (
    BucketBiasWindow,
    CausalWindow,
    Intersection,
    LinearBiasWindow,
    Mechanism,
    ProjectedSum,
    RelativeDotScore,
    RelativeSum,
    RotaryDotScore,
    ScaledDotScore,
    SoftmaxAlignment,
    TransformerXLScore,
    multi_head,
)

LAYERS = ("score.{}query_projection", "score.{}key_projection", "read.{}value_projection", "read.{}output_projection")


def layers(names, tensors, kind="weight"):
    return {f"{name}.{kind}": value for name, value in zip(names, tensors, strict=True)}


def open_nmt(score="", read=""):
    """Their four layers, under the names that our parts have them by."""
    names = [LAYERS[0].format(score), LAYERS[1].format(score), LAYERS[2].format(read), LAYERS[3].format(read)]
    theirs = ("linear_query", "linear_keys", "linear_values", "final_linear")

    def weights(w):
        return {
            name: value
            for kind in ("weight", "bias")
            for name, value in layers(names, [w[f"{x}.{kind}"] for x in theirs], kind).items()
        }

    return weights


def with_vectors(name, theirs):
    """OpenNMT-py's layers and one more weight."""

    def weights(w):
        inner = "" if name.startswith("window") else "content."
        return open_nmt(inner, inner and "values.")(w) | {name: w[theirs]}

    return weights


def x_transformers(score=""):
    names = [LAYERS[0].format(score), LAYERS[1].format(score), LAYERS[2].format(""), LAYERS[3].format("")]
    return lambda w: layers(names, [w[f"attention.to_{x}.weight"] for x in ("q", "k", "v", "out")])


def hide_padded_queries(outputs, given, w):
    """x-transformers gives zeros where the query is padding."""
    padding = torch.arange(given["memory"].shape[1]) >= given["lengths"][:, None]
    return outputs | {"context": outputs["context"].masked_fill(padding[..., None], 0)}


def t5(w):
    """It multiplies its biases by √ of a head's width."""
    return x_transformers()(w) | {"window.biases": w["positions.relative_attention_bias.weight"] * 2}


def t5_causal(w):
    return {name.replace("window.", "window.windows.1."): value for name, value in t5(w).items()}


TILED = torch.tensor([0, 2, 1, 3])
"""Its query heads that share a key-value head (h mod 2), side by side as ours."""


def tiled(w):
    weights = x_transformers()(w)
    query, output = weights["score.query_projection.weight"], weights["read.output_projection.weight"]
    return weights | {
        "score.query_projection.weight": query.unflatten(0, (4, 4))[TILED].flatten(0, 1),
        "read.output_projection.weight": output.unflatten(1, (4, 4))[:, TILED].flatten(1),
    }


def in_their_order(outputs, given, w):
    outputs = hide_padded_queries(outputs, given, w)
    return outputs | {"alignment": outputs["alignment"][:, TILED.argsort()]}


def keras(w):
    """Keras keeps heads as an axis of every kernel, and inputs first."""
    names = [name.format("") for name in LAYERS]
    kernels = [w[f"{x}/kernel"].flatten(1).T for x in ("query", "key", "value")]
    biases = [w[f"{x}/bias"].flatten() for x in ("query", "key", "value")]
    return layers(names, [*kernels, w["attention_output/kernel"].flatten(0, 1).T]) | layers(
        names, [*biases, w["attention_output/bias"]], "bias"
    )


def torch_heads(w):
    """torch keeps one matrix or three, and always one bias."""
    whole = w.get("in_proj_weight")
    matrices = [w[f"{x}_proj_weight"] for x in "qkv"] if whole is None else list(whole.chunk(3))
    names = [name.format("") for name in LAYERS]
    mapped = layers(names, [*matrices, w["out_proj.weight"]])
    if "in_proj_bias" not in w:
        return mapped
    return mapped | layers(names, [*w["in_proj_bias"].chunk(3), w["out_proj.bias"]], "bias")


def unprojected(inputs):
    """torch takes heads that are projected already: (B, H, T, D)."""
    names = {"query": "queries", "key": "keys", "value": "memory"}
    return {ours: inputs[theirs].transpose(1, 2).flatten(2) for theirs, ours in names.items()} | {
        "lengths": inputs["lengths"]
    }


def identities(w):
    names = [name.format("") for name in LAYERS]
    return layers(names, [torch.eye(width) for width in (12, 6, 6, 12)])


def speech_brain(w):
    """One matrix holds query, key and value of the first head, then of the second.

    It divides by √ of the whole width, and its sines and cosines alternate. Both biases have the heads' axis last but
    are read with it first.
    """
    narrower = 0.5**0.5
    query, key, value = w["in_proj_weight"].view(2, 3, 4, 8).transpose(0, 1).flatten(1, 2)
    positions = w["linear_pos.weight"]
    mapped = layers(
        [LAYERS[0].format("content."), LAYERS[1].format("content."), LAYERS[2].format(""), LAYERS[3].format("")],
        [query * narrower, key, value, w["out_proj.weight"]],
    )
    return mapped | {
        "read.value_projection.bias": w["value_bias_weight"],
        "read.output_projection.bias": w["out_proj.bias"],
        "score.offset_projection.weight": torch.cat([positions[:, 0::2], positions[:, 1::2]], 1),
        "score.content_bias": w["pos_bias_u"].view(2, 4) * narrower,
        "score.offset_bias": w["pos_bias_v"].view(2, 4) * narrower,
    }


def heads(score=ScaledDotScore, window=None, *, num_heads=2, size=8, bias=False, sharing=None, **options):
    """Self-attention over 8 features."""
    shared = {"num_heads": num_heads, "num_key_value_heads": sharing, "bias": bias}
    return Mechanism(
        score(8, 8, size, **shared, **options),
        SoftmaxAlignment(),
        ProjectedSum(8, size, output_size=8, **shared),
        window,
    )


def shaw():
    score = RelativeDotScore(8, 8, 8, num_heads=2, max_distance=2, bias=True)
    read = RelativeSum(8, 8, num_heads=2, max_distance=2, offsets=score.offsets, bias=True)
    return Mechanism(score, SoftmaxAlignment(), read)


def buckets(num_heads=2, **options):
    return BucketBiasWindow(num_heads, num_buckets=8, max_distance=6, **options)


def transformer_xl():
    score = TransformerXLScore(8, 8, 8, num_heads=2)
    return Mechanism(score, SoftmaxAlignment(), ProjectedSum(8, 8, num_heads=2, bias=True))


def unequal_heads():
    """Keys of 3 and values of 4 a head."""
    return Mechanism(
        ScaledDotScore(5, 6, 6, num_heads=2, bias=True),
        SoftmaxAlignment(),
        ProjectedSum(6, 8, num_heads=2, output_size=6, bias=True),
    )


def grouped_keras():
    options = {"num_heads": 4, "num_key_value_heads": 2, "bias": True}
    return Mechanism(
        ScaledDotScore(5, 6, 12, **options), SoftmaxAlignment(), ProjectedSum(6, 12, output_size=5, **options)
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
    Parity(
        "opennmt/multi_head",
        lambda: multi_head(query_size=8, memory_size=8, size=8, num_heads=2, bias=True),
        open_nmt(),
    ),
    Parity("opennmt/shaw", shaw, with_vectors("score.offsets.vectors", "relative_positions_embeddings.weight")),
    Parity(
        "opennmt/buckets",
        lambda: heads(window=buckets(), bias=True),
        with_vectors("window.biases", "relative_attention_bias.weight"),
    ),
    Parity("opennmt/rotary_interleaved", lambda: heads(RotaryDotScore, bias=True), open_nmt("content.")),
    Parity("opennmt/rotary_halves", lambda: heads(RotaryDotScore, bias=True, layout="half"), open_nmt("content.")),
    Parity("opennmt/alibi", lambda: heads(window=LinearBiasWindow(2), bias=True), open_nmt()),
    Parity("opennmt/grouped", lambda: heads(num_heads=4, sharing=2, bias=True), open_nmt()),
    Parity("x_transformers/multi_head", heads, x_transformers(), hide_padded_queries),
    Parity("x_transformers/causal", lambda: heads(window=CausalWindow()), x_transformers(), hide_padded_queries),
    Parity("x_transformers/rotary", lambda: heads(RotaryDotScore), x_transformers("content."), hide_padded_queries),
    Parity(
        "x_transformers/rotary_partial",
        lambda: heads(RotaryDotScore, size=12, rotary_size=4),
        x_transformers("content."),
        hide_padded_queries,
    ),
    Parity("x_transformers/alibi", lambda: heads(window=LinearBiasWindow(2)), x_transformers(), hide_padded_queries),
    Parity(
        "x_transformers/alibi_three_heads",
        lambda: heads(window=LinearBiasWindow(3), num_heads=3, size=12),
        x_transformers(),
        hide_padded_queries,
    ),
    Parity("x_transformers/t5", lambda: heads(window=buckets()), t5, hide_padded_queries),
    Parity(
        "x_transformers/t5_causal",
        lambda: heads(window=Intersection([CausalWindow(), buckets(bidirectional=False)])),
        t5_causal,
        hide_padded_queries,
    ),
    Parity("x_transformers/grouped", lambda: heads(num_heads=4, size=16, sharing=2), tiled, in_their_order),
    Parity("keras/multi_head", unequal_heads, keras),
    Parity("keras/grouped_query", grouped_keras, keras),
    Parity(
        "torch_nn/grouped_query",
        lambda: Mechanism(
            ScaledDotScore(12, 6, 12, num_heads=4, num_key_value_heads=2),
            SoftmaxAlignment(),
            ProjectedSum(6, 12, num_heads=4, num_key_value_heads=2),
        ),
        identities,
        lambda outputs, given, w: {"context": outputs["context"].unflatten(2, (4, 3)).transpose(1, 2)},
        given=unprojected,
    ),
    Parity("speechbrain/rel_pos_mha_xl", transformer_xl, speech_brain),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_the_original(case, dtype):
    assert_parity(case, dtype)
