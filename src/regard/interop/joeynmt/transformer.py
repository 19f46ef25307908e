"""Transformers of Joey NMT: their sections, and the names of their weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.interop.joeynmt import PROGRAM, side_options
from regard.interop.named_weights import Names
from regard.interop.options import Options
from regard.interop.transformers import transformer_names

COMMON: Mapping[str, Any] = {"dropout": 0.1, "alpha": 1.0, "activation": "relu", "num_layers": 8, "num_heads": 4}
ENCODER: Mapping[str, Any] = COMMON
DECODER: Mapping[str, Any] = {**COMMON, "num_layers": 4, "num_heads": 8}
FEED_FORWARD_SIZE = 2048
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
ATTENTION: Names = {
    "score.query_projection": "q_layer",
    "score.key_projection": "k_layer",
    "read.value_projection": "v_layer",
    "read.output_projection": "output_layer",
}
"""The projections of multi-head attention."""
FEED_FORWARD: Names = {
    "feed_forward.inner": "feed_forward.pwff_layer.0",
    "feed_forward.outer": "feed_forward.pwff_layer.3",
}
ENCODER_LAYER: Names = {
    **{f"attention.{ours}": f"src_src_att.{theirs}" for ours, theirs in ATTENTION.items()},
    **FEED_FORWARD,
    "residuals.0.norm": "layer_norm",
    "residuals.1.norm": "feed_forward.layer_norm",
}
DECODER_LAYER: Names = {
    **{f"attention.{ours}": f"trg_trg_att.{theirs}" for ours, theirs in ATTENTION.items()},
    **{f"cross_attention.{ours}": f"src_trg_att.{theirs}" for ours, theirs in ATTENTION.items()},
    **FEED_FORWARD,
    "residuals.0.norm": "x_layer_norm",
    "residuals.1.norm": "dec_layer_norm",
    "residuals.2.norm": "feed_forward.layer_norm",
}
COMPUTED = ("encoder.pe.pe", "decoder.pe.pe")
"""Tables of sinusoidal positions."""


def section(model: Mapping[str, Any]) -> dict[str, Any]:
    """The section `model`."""
    encoder, decoder = side_options(model, ENCODER, DECODER)
    decoding = {"tied_weights": bool(model.get("tied_softmax", False))}
    return {
        "architecture": "transformer",
        "encoder": _side(encoder, norm=encoder.values.get("layer_norm", "pre")),
        "decoder": {**_side(decoder, norm=decoder.values.get("layer_norm", "post")), **decoding},
    }


def names(model: Mapping[str, Any]) -> dict[str, str]:
    """The names of their modules, by ours."""
    layers = [side["num_layers"] for side in side_options(model, ENCODER, DECODER)]
    embeddings = {"source": "src_embed.lut", "target": "trg_embed.lut"}
    names = transformer_names(layers, (ENCODER_LAYER, DECODER_LAYER), **embeddings, output="decoder.output_layer")
    return names | {"encoder.norm": "encoder.layer_norm", "decoder.norm": "decoder.layer_norm"}


def weights(theirs: Mapping[str, Tensor], model: Mapping[str, Any]) -> dict[str, Tensor]:
    """The weights without tables of positions."""
    return {name: tensor for name, tensor in theirs.items() if name not in COMPUTED}


def _side(options: Options, *, norm: str) -> dict[str, Any]:
    """The section of an encoder or a decoder.

    Args:
        norm: the place of the layer norms. Only an explicit `layer_norm: pre` adds a last norm: an encoder without the
            key has norms before its sublayers, but no last norm.
    """
    options.require("alpha", [1, 1.0], "inputs of sublayers are added without a factor")
    size = options["hidden_size"]
    return {
        "size": size,
        "layers": options["num_layers"],
        "heads": options["num_heads"],
        "feed_forward_size": options.values.get("ff_size", FEED_FORWARD_SIZE),
        "activation": ACTIVATIONS[options.require("activation", list(ACTIVATIONS))],
        "norm": Options({"layer_norm": norm}, PROGRAM, {}).require("layer_norm", ["pre", "post"]),
        "final_norm": options.values.get("layer_norm") == "pre",
        "norm_epsilon": 1e-6,
        "projection_bias": True,
        "scaled_embeddings": bool(options["embeddings"].get("scale", False)),
        "dropout": float(options["dropout"]),
        "attention_dropout": float(options["dropout"]),
    }
