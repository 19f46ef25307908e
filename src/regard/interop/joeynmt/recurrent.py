"""Recurrent models of Joey NMT: their sections, their weights and the names of these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import DataError, UnsupportedError
from regard.interop.joeynmt import PROGRAM, side_options
from regard.interop.options import Options

ENCODER: Mapping[str, Any] = {"rnn_type": "gru", "num_layers": 1, "dropout": 0.0, "bidirectional": True}
DECODER: Mapping[str, Any] = {
    "rnn_type": "gru",
    "num_layers": 1,
    "dropout": 0.0,
    "attention": "bahdanau",
    "init_hidden": "bridge",
    "input_feeding": True,
    "activation": "tanh",
}
BRIDGES = {"bridge": "tanh", "last": "linear", "zero": "zero", "zeros": "zero"}
"""Our bridges by their `init_hidden`; `last` copies the state, by an identity matrix."""
KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def section(model: Mapping[str, Any]) -> dict[str, Any]:
    """The section `model`."""
    encoder, decoder = side_options(model, ENCODER, DECODER)
    encoder.require("bidirectional", [True], "their decoder needs both directions")
    for side in (encoder, decoder):
        side.require("rnn_type", ["lstm", "gru"])
    decoder.require("activation", ["tanh"], "it has no other activation")
    attention = decoder.require("attention", ["bahdanau", "luong"])
    bridge = BRIDGES[decoder.require("init_hidden", list(BRIDGES))]
    width = encoder["hidden_size"], 2 * encoder["hidden_size"]
    if decoder["init_hidden"] == "last" and decoder["hidden_size"] not in width:
        raise UnsupportedError(
            f"init_hidden: last of the model of {PROGRAM} needs a decoder as wide as the encoder, {width[0]} or "
            f"{width[1]}; its hidden_size is {decoder['hidden_size']}."
        )
    result: dict[str, Any] = {
        "architecture": "recurrent",
        "encoder": {
            "cell": encoder["rnn_type"],
            "size": encoder["hidden_size"],
            "layers": encoder["num_layers"],
            "bidirectional": True,
            "embedding_size": encoder["embeddings"]["embedding_dim"],
            "dropout": float(encoder["dropout"]),
        },
        "decoder": {
            "cell": decoder["rnn_type"],
            "size": decoder["hidden_size"],
            "layers": decoder["num_layers"],
            "embedding_size": decoder["embeddings"]["embedding_dim"],
            "dropout": float(decoder["dropout"]),
            "input_feeding": bool(decoder["input_feeding"]),
            "bridge": bridge,
            "tied_weights": bool(model.get("tied_softmax", False)) and not _is_scaled(decoder),
        },
        "attention": {"recipe": attention} | ({"size": decoder["hidden_size"]} if attention == "bahdanau" else {}),
    }
    if bridge != "zero" and decoder["num_layers"] > 1:
        result["decoder"]["bridge_layers"] = "top"
    return result


def names(model: Mapping[str, Any]) -> dict[str, str]:
    """The names of their modules and weights, by ours."""
    encoder, decoder = side_options(model, ENCODER, DECODER)
    result = {
        "encoder.embedding.table": "src_embed.lut",
        "decoder.embedding.table": "trg_embed.lut",
        "decoder.head.projection": "decoder.output_layer",
        "decoder.readout": "decoder.att_vector_layer",
        "decoder.attention.score.key_projection": "decoder.attention.key_layer",
        "decoder.attention.score.query_projection": "decoder.attention.query_layer",
        "decoder.attention.score.v": "decoder.attention.energy_layer.weight",
    }
    for side, part, directions in (("encoder", encoder, ("", "_reverse")), ("decoder", decoder, ("",))):
        for layer in range(part["num_layers"]):
            for direction in directions:
                for kind in KINDS:
                    ours = f"{side}.stack.layers.{layer}.{kind}_l0{direction}"
                    result[ours] = f"{side}.rnn.{kind}_l{layer}{direction}"
    return result


def weights(theirs: Mapping[str, Tensor], model: Mapping[str, Any]) -> dict[str, Tensor]:
    """The weights, with those of our bridge, and embeddings that are already scaled."""
    encoder, decoder = side_options(model, ENCODER, DECODER)
    result = dict(theirs)
    for side, name in ((encoder, "src_embed.lut.weight"), (decoder, "trg_embed.lut.weight")):
        if _is_scaled(side):
            result[name] = result[name] * math.sqrt(result[name].shape[1])
    first = _first_state(result, encoder, decoder)
    if first is not None:
        weight, bias = first
        count = 2 if decoder["rnn_type"] == "lstm" else 1
        unread = (2 if encoder["rnn_type"] == "lstm" else 1) - 1
        wide = torch.cat([weight, *[torch.zeros_like(weight)] * unread], 1)  # without the encoder's cell states
        for layer in range(decoder["num_layers"]):
            result[f"decoder.bridge.maps.{layer}.weight"] = torch.cat([wide] * count)
            result[f"decoder.bridge.maps.{layer}.bias"] = torch.cat([bias] * count)
    return result


def _first_state(result: dict[str, Tensor], encoder: Options, decoder: Options) -> tuple[Tensor, Tensor] | None:
    """W and b of h_0 = W x + b or its tanh, with x the states of the encoder's top layer; None for zeros."""
    size, width = decoder["hidden_size"], 2 * encoder["hidden_size"]
    if decoder["init_hidden"] == "last":  # the forward states of an encoder that is twice as wide
        return torch.eye(size, width), torch.zeros(size)
    if decoder["init_hidden"] != "bridge":
        return None
    weight, bias = (result.pop(f"decoder.bridge_layer.{kind}", None) for kind in ("weight", "bias"))
    if weight is None or bias is None:
        raise DataError(f"There is no weight decoder.bridge_layer in the checkpoint of {PROGRAM}.")
    if weight.shape != (size, width):
        raise DataError(f"decoder.bridge_layer.weight is {tuple(weight.shape)}; it must be {(size, width)}.")
    return weight, bias


def _is_scaled(side: Options) -> bool:
    """Whether embeddings are multiplied by √E."""
    return bool(side["embeddings"].get("scale", False))
