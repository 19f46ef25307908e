"""Converts checkpoints of OpenNMT-py 3."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import DataError, UnsupportedError
from regard.interop.contract import AbstractKind, Converted, Origin
from regard.interop.files import mapping, read_checkpoint, read_safetensors, tensors
from regard.interop.opennmt import OPENNMT, search_section, side_symbols
from regard.interop.opennmt.networks import CELLS, GlobalAttentionModel, Naming, Positions, pre_norm_transformer
from regard.interop.options import Options
from regard.interop.texts import SIDE, ordered, split_field, text_model

PROGRAM = "OpenNMT-py"
DEFAULTS: Mapping[str, Any] = {
    "model_task": "seq2seq",
    "model_type": "text",
    "layers": -1,
    "hidden_size": -1,
    "word_vec_size": -1,
    "share_embeddings": False,
    "share_decoder_embeddings": False,
    "copy_attn": False,
    "generator_function": "softmax",
    "lora_layers": [],
    "lora_embedding": False,
    "quant_layers": [],
    "dropout": 0.0,
    "coverage_attn": False,
    "context_gate": None,
    "bridge": False,
    "input_feed": 1,
    "global_attention_function": "softmax",
    "position_encoding": False,
    "position_encoding_type": "SinusoidalInterleaved",
    "max_relative_positions": 0,
    "relative_positions_buckets": 0,
    "rotary_interleave": True,
    "rotary_theta": 10000,
    "rotary_dim": 0,
    "num_kv": 0,
    "multiquery": False,
    "add_qkvbias": False,
    "add_ffnbias": True,
    "parallel_residual": False,
    "layer_norm": "standard",
    "norm_eps": 1e-6,
    "sliding_window": 0,
    "num_experts": 0,
    "self_attn_type": "scaled-dot",
    "pos_ffn_activation_fn": "relu",
    "attention_dropout": 0.0,
}
"""Options that older versions do not save, with their values there."""
OLDER = {
    "torchtext": "It has the vocabularies of OpenNMT-py 1 or 2. First convert it with tools/convertv2_v3.py of "
    "OpenNMT-py 3, in an environment with the torchtext that saved it."
}
"""Advice for checkpoints of other versions, by the classes in them."""
EMBEDDINGS = {side: f"{side}.embeddings.make_embedding.emb_luts.0" for side in ("encoder", "decoder")}
COMPUTED = (".make_embedding.pe.pe", ".rope", ".cos", ".sin", ".alibi.slopes", ".alibi.bias")
"""The ends of the names of tables that are computed from options."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swiglu"}
"""Our feed-forward sublayers by their activations; `silu` is gated there."""
_ATTENTION = {"attention": "self_attn", "cross_attention": "context_attn"}
_FEED_FORWARD = {
    "feed_forward.inner": "feed_forward.w_1",
    "feed_forward.outer": "feed_forward.w_2",
}
_GATED = {**_FEED_FORWARD, "feed_forward.gate": "feed_forward.w_1", "feed_forward.inner": "feed_forward.w_3"}
_ENCODER = {"residuals.0.norm": "layer_norm", "residuals.1.norm": "feed_forward.layer_norm"}
_DECODER = {
    "residuals.0.norm": "layer_norm_1",
    "residuals.1.norm": "layer_norm_2",
    "residuals.2.norm": "feed_forward.layer_norm",
}


class OpenNMT(AbstractKind):
    """A checkpoint `.pt` with options and vocabularies; its weights may be in a file `.safetensors` next to it.

    Texts are symbols between blanks, as in the files that the program reads; subwords and tokenisation are applied
    before.
    """

    summary = "OpenNMT-py 3 (.pt): recurrent models and Transformers that turn texts into texts"

    def read(self, origin: Origin) -> Converted:
        checkpoint = mapping(read_checkpoint(origin.path, advice=OLDER), origin.path, f"a checkpoint of {PROGRAM}")
        for name in ("opt", "vocab"):
            if name not in checkpoint:
                raise DataError(f"{origin.path}: a checkpoint of {PROGRAM} has {name!r}, and this one does not.")
        if not isinstance(checkpoint["opt"], Namespace):
            raise DataError(f"{origin.path}: expected options; got {type(checkpoint['opt']).__name__}.")
        options = _options(checkpoint["opt"])
        vocabularies = mapping(checkpoint["vocab"], origin.path, "vocabularies by side")
        if vocabularies.get("src_feats"):
            raise UnsupportedError(f"{origin.path}: sources with features of words (src_feats) are not supported.")
        specials = {"padding": "<blank>", "begin": "<s>", "end": "</s>", "unknown": "<unk>"}
        source, target = side_symbols(vocabularies, origin.path, **specials)
        sides = {EMBEDDINGS["encoder"]: source, EMBEDDINGS["decoder"]: target, "generator": target}
        weights = ordered(_weights(checkpoint, origin.path), sides, output="generator")
        names: Any
        if options["decoder_type"] == "rnn":
            network = _recurrent(options)
            section, weights, names = network.section(), network.arranged(weights), network.names()
        else:
            section = _transformer(options)
            names = naming(gated=section["encoder"]["activation"] == "swiglu").names
        return text_model(
            split_field(source),
            split_field(target),
            weights,
            names,
            data={
                "source": SIDE,
                "target": SIDE,
                "source_end": False,
                "joint_vocabulary": section["shared_embeddings"],
            },
            model=section,
            decoding=search_section(Options({}, PROGRAM, OPENNMT), []),
            without_bias=() if options["add_ffnbias"] else ("*.feed_forward.w_?",),
        )


def naming(*, gated: bool) -> Naming:
    """The names of a Transformer's weights."""
    inside = {**_ATTENTION, **(_GATED if gated else _FEED_FORWARD)}
    return Naming(
        source=EMBEDDINGS["encoder"],
        target=EMBEDDINGS["decoder"],
        layers={"encoder": "encoder.transformer", "decoder": "decoder.transformer_layers"},
        parts={"encoder": {**inside, **_ENCODER}, "decoder": {**inside, **_DECODER}},
    )


def _options(saved: Namespace) -> Options:
    """The options, with those that stand for several filled in."""
    values = dict(vars(saved))
    options = Options(values, PROGRAM, DEFAULTS)
    options.require("model_task", ["seq2seq"], "only models of a source and a target are read")
    options.require("model_type", ["text"])
    options.require("generator_function", ["softmax"])
    for name in ("copy_attn", "lora_embedding"):
        options.require(name, [False])
    for name in ("lora_layers", "quant_layers"):
        options.require(name, [[]], "its layers have further weights")
    for one, several in (
        ("layers", ("enc_layers", "dec_layers")),
        ("hidden_size", ("enc_hid_size", "dec_hid_size")),
        ("word_vec_size", ("src_word_vec_size", "tgt_word_vec_size")),
    ):
        if options[one] > 0:
            values |= dict.fromkeys(several, options[one])
    for name in ("dropout", "attention_dropout"):
        rate = options[name]
        values[name] = float(rate[0] if isinstance(rate, list) else rate)
    return Options(values, PROGRAM, DEFAULTS)


def _recurrent(options: Options) -> GlobalAttentionModel:
    encoder = options.require("encoder_type", ["rnn", "brnn"])
    cell = options.require("rnn_type", list(CELLS))
    feeding = bool(options["input_feed"])
    attention = options.require("global_attention", ["dot", "general", "mlp", "none", None])
    attention = None if attention == "none" else attention
    if feeding and cell == "RNN":
        raise UnsupportedError(
            f"rnn_type: RNN with input_feed is not supported: the decoder of {PROGRAM} then has GRU cells, and the "
            "encoder others."
        )
    if feeding and attention is None:
        raise UnsupportedError("input_feed without global_attention is not supported.")
    options.require("coverage_attn", [False])
    options.require("context_gate", [None])
    options.require("dec_layers", [options["enc_layers"]], "the layers of the decoder start from those of the encoder")
    return GlobalAttentionModel(
        cell=CELLS[cell],
        bidirectional=encoder == "brnn",
        layers=options["enc_layers"],
        size=options["dec_hid_size"],
        source_size=options["src_word_vec_size"],
        target_size=options["tgt_word_vec_size"],
        input_feeding=feeding,
        attention=attention,
        alignment=options.require("global_attention_function", ["softmax", "sparsemax"]),
        bridge=bool(options["bridge"]),
        tied_weights=bool(options["share_decoder_embeddings"]),
        shared_embeddings=bool(options["share_embeddings"]),
        positions=_added(options),
        dropout=options["dropout"],
        source=EMBEDDINGS["encoder"],
        target=EMBEDDINGS["decoder"],
    )


def _transformer(options: Options) -> dict[str, Any]:
    for name in ("encoder_type", "decoder_type"):
        options.require(name, ["transformer"])
    for name in ("parallel_residual", "sliding_window", "num_experts", "relative_positions_buckets"):
        options.require(name, [0])
    options.require("rotary_dim", [0, options["dec_hid_size"] // options["heads"]])
    options.require("layer_norm", ["standard"])
    options.require("self_attn_type", ["scaled-dot", "scaled-dot-flash"])
    positions: Positions | None = None
    distance = options["max_relative_positions"]
    if options["position_encoding"]:
        options.require("max_relative_positions", [0], "position_encoding is also set")
        positions = _added(options)
    elif distance:
        positions = "relative" if distance > 0 else _beyond(distance)
    return pre_norm_transformer(
        {
            "size": options["dec_hid_size"],
            "heads": options["heads"],
            "key_value_heads": options["num_kv"] or (1 if options["multiquery"] else None),
            "feed_forward_size": options["transformer_ff"],
            "activation": ACTIVATIONS[options.require("pos_ffn_activation_fn", list(ACTIVATIONS))],
            "norm_epsilon": float(options["norm_eps"]),
            "projection_bias": bool(options["add_qkvbias"]),
            "positions": positions,
            "scaled_embeddings": bool(options["position_encoding"]),
            "dropout": options["dropout"],
            "attention_dropout": options["attention_dropout"],
        },
        (options["enc_layers"], options["dec_layers"]),
        {
            "rotary_layout": "interleaved" if options["rotary_interleave"] else "half",
            "rotary_base": float(options["rotary_theta"]),
            "max_distance": max(1, distance),
            "shared_offsets": True,
        },
        tied_weights=bool(options["share_decoder_embeddings"]),
        shared_embeddings=bool(options["share_embeddings"]),
    )


def _added(options: Options) -> Positions | None:
    """The positions that are added to embeddings, or None."""
    if not options["position_encoding"]:
        return None
    kind = options.require("position_encoding_type", ["SinusoidalInterleaved", "SinusoidalConcat"])
    return "sinusoidal" if kind == "SinusoidalInterleaved" else "blocked_sinusoidal"


def _beyond(distance: int) -> Positions:
    """The positions of a negative `max_relative_positions`."""
    if distance not in (-1, -2):
        raise UnsupportedError(f"The option max_relative_positions of the model of {PROGRAM} is {distance}.")
    return "rotary" if distance == -1 else "linear_bias"


def _weights(checkpoint: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """The weights by name; those of the output layer are `generator.weight` and `generator.bias`."""
    if "model" not in checkpoint:
        weights = read_safetensors(path.with_suffix(".safetensors"))
    else:
        weights = tensors(checkpoint["model"], path, "weights by name under 'model'")
        for name, tensor in tensors(checkpoint.get("generator") or {}, path, "weights under 'generator'").items():
            weights[f"generator.{name.removeprefix('0.')}"] = tensor
    return {name: tensor for name, tensor in weights.items() if not name.endswith(COMPUTED)}
