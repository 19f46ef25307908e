"""Parity with TensorFlow Addons, the last home of tf.contrib.seq2seq's attention."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call

from golden.archive import load
from golden.parity import TOLERANCE, Parity, assert_parity, compare, leaves
from regard.attention import BilinearScore, HardmaxAlignment, Mechanism, WeightedSum, bahdanau, luong
from regard.layers import RecurrentStack
from regard.models import Bridge, Encoded, RecurrentDecoder


def additive(w):
    return {
        "score.query_projection.weight": w["query_layer.kernel"].T,
        "score.key_projection.weight": w["memory_layer.kernel"].T,
        "score.v": w["attention_v"][None],
    }


def normalised(w):
    return additive(w) | {"score.query_projection.bias": w["attention_b"], "score.gain": w["attention_g"][None, None]}


def general(w):
    return {"score.key_projection.weight": w["memory_layer.kernel"].T}


def scaled(w):
    return general(w) | {"score.dot.scale": w["scale_weight"]}


CASES = [
    Parity("tensorflow_addons/bahdanau", lambda: bahdanau(query_size=5, memory_size=6, size=4), additive),
    Parity(
        "tensorflow_addons/bahdanau_normalize",
        lambda: bahdanau(query_size=5, memory_size=6, size=4, normalised=True),
        normalised,
    ),
    Parity("tensorflow_addons/luong", lambda: luong(query_size=5, memory_size=6), general),
    Parity(
        "tensorflow_addons/luong_hardmax",
        lambda: Mechanism(BilinearScore(5, 6), HardmaxAlignment(), WeightedSum(6)),
        general,
    ),
    Parity("tensorflow_addons/luong_scale", lambda: luong(query_size=5, memory_size=6, learned_scale=True), scaled),
]


PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


@PRECISIONS
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_those_of_tensorflow_addons(case, dtype):
    assert_parity(case, dtype)


class Values(nn.Identity):
    """Inputs that are embedded already."""

    size = 3


class Decoder(nn.Module):
    """Our decoder of recur_then_attend, with the options of AttentionWrapper as the house says them."""

    def __init__(self, attention, cell, **options):
        super().__init__()
        named = {key: value for key, value in options.items() if key != "layer_bias"}
        width = RecurrentDecoder.input_size(Values.size, 5, attention=attention, **named)
        stack = RecurrentStack(width, 5, cell=cell)
        parts = Values(), stack, nn.Identity(), Bridge(stack, stack, "zero")
        self.decoder = RecurrentDecoder(*parts, attention=attention, continuous=True, **options)

    def forward(self, given):
        mask = torch.arange(given["memory"].shape[1]) < given["lengths"][:, None]
        memory = self.decoder.prepare(Encoded(given["memory"], mask, ()))
        found = self.decoder.run(given["inputs"], memory, alignment=True)
        return {"output": found.output, "alignment": found.alignment, "state": found.cell}


def lstm(w):
    return {
        "stack.layers.0.weight_ih_l0": w["cell.kernel"].T,
        "stack.layers.0.weight_hh_l0": w["cell.recurrent_kernel"].T,
        "stack.layers.0.bias_ih_l0": w["cell.bias"],
        "stack.layers.0.bias_hh_l0": torch.zeros_like(w["cell.bias"]),
    }


def luong_decoder(w):
    return {f"decoder.{name}": value for name, value in lstm(w).items()} | {
        "decoder.attention.score.key_projection.weight": w["mechanism.memory_layer.kernel"].T,
        "decoder.readout.weight": w["attention_layer.kernel"].T,
    }


def turned(gates):
    """Keras keeps a GRU's gates as z, r, h on its last axis; torch as r, z, n on its first."""
    update, reset, new = gates.chunk(3, -1)
    return torch.cat([reset, update, new], -1).T


def bahdanau_wrapper(w):
    mechanism = additive({name.removeprefix("mechanism."): value for name, value in w.items()})
    inner, outer = turned(w["cell.bias"]).unbind(-1)
    return {f"decoder.attention.{name}": value for name, value in mechanism.items()} | {
        "decoder.stack.layers.0.weight_ih_l0": turned(w["cell.kernel"]),
        "decoder.stack.layers.0.weight_hh_l0": turned(w["cell.recurrent_kernel"]),
        "decoder.stack.layers.0.bias_ih_l0": inner,
        "decoder.stack.layers.0.bias_hh_l0": outer,
    }


BARE = {"layer_bias": False}
DECODERS = {
    "wrapper_luong_lstm_tanh": (lambda: Decoder(luong(query_size=5, memory_size=6), "lstm", **BARE), luong_decoder),
    "wrapper_luong_lstm": (
        lambda: Decoder(luong(query_size=5, memory_size=6), "lstm", readout="linear", **BARE),
        luong_decoder,
    ),
    "wrapper_bahdanau_gru": (
        lambda: Decoder(bahdanau(query_size=5, memory_size=6, size=4), "gru", readout="state", input_feeding="context"),
        bahdanau_wrapper,
    ),
}


@PRECISIONS
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_takes_the_steps_of_attention_wrapper(name, dtype):
    make, weights = DECODERS[name]
    golden = load("tensorflow_addons", name, dtype)
    given, own = leaves(golden.inputs), leaves(golden.weights)
    outputs = functional_call(make().to(dtype), dict(weights(own)), (given,), strict=True)
    found = compare(golden, outputs, given | own)
    assert {name: value for name, value in found.items() if not value <= TOLERANCE[dtype]} == {}
