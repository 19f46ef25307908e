"""Converts model folders of eole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.errors import UnsupportedError
from regard.interop.contract import PREPARED_FACT, AbstractKind, Converted, Origin
from regard.interop.files import mapping, read_json, read_safetensors, require_folder
from regard.interop.opennmt import EOLE, search_section, side_symbols
from regard.interop.opennmt.networks import CELLS, GlobalAttentionModel, Naming, Positions, pre_norm_transformer
from regard.interop.options import Options
from regard.interop.texts import SIDE, Symbols, ordered, split_field, text_model

PROGRAM = "eole"
CONFIGURATION, VOCABULARIES, WEIGHTS = "config.json", "vocab.json", "model.00.safetensors"
SOURCE, TARGET = "src_emb.embeddings", "tgt_emb.embeddings"
OFFSETS, SCALED = "relative_positions_embeddings", " times √d"
"""The vectors of relative positions, and the mark of those times √d: there their products are not divided by √d."""
SPECIALS = {"pad_token": "<blank>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
_EMBEDDINGS: Mapping[str, Any] = {
    "embedding_type": "standard",
    "src_word_vec_size": 512,
    "tgt_word_vec_size": 512,
    "word_vec_size": -1,
    "position_encoding_type": "SinusoidalInterleaved",
    "n_positions": None,
    "position_shift": 0,
    "normalize": False,
    "embedding_layer_norm": False,
}
_MODEL: Mapping[str, Any] = {
    "share_embeddings": False,
    "share_decoder_embeddings": False,
    "input_feed": 1,
    "generator_function": "softmax",
    "generator_bias": True,
    "add_estimator": False,
    "left_pad": False,
}
_RECURRENT: Mapping[str, Any] = {
    "layers": 2,
    "hidden_size": 512,
    "rnn_type": "LSTM",
    "bridge": False,
    "coverage_attn": False,
    "context_gate": None,
    "global_attention": "general",
    "global_attention_function": "softmax",
}
_TRANSFORMER: Mapping[str, Any] = {
    "layers": 2,
    "hidden_size": 512,
    "heads": 8,
    "heads_kv": None,
    "head_dim": None,
    "transformer_ff": 2048,
    "mlp_activation_fn": "relu",
    "layer_norm": "standard",
    "norm_eps": 1e-5,
    "add_qkvbias": False,
    "add_ffnbias": False,
    "add_final_linear_bias": False,
    "rope_config": None,
    "encoder_layer_style": "standard",
    "final_encoder_layer_norm": True,
    "relative_positions_buckets": 0,
    "sliding_window": 0,
    "attn_scaling": None,
    "parallel_residual": False,
    "ffn_layernorm": False,
    "query_norm": False,
    "key_norm": False,
    "value_norm": False,
    "q_gating": False,
    "num_experts": 0,
    "layer_types": None,
    "num_mtp_heads": 0,
}
_ROTATION: Mapping[str, Any] = {
    "rotary_interleave": True,
    "rotary_theta": 10000,
    "rotary_dim": 0,
    "scaling_type": None,
    "xdrope_section": None,
    "interleave_local": 0,
    "partial_rotary_factor": 0.0,
    "tmax_index": 0,
}
ABSENT = (0, None, False)
"""Values of unused options."""
UNREAD = (
    "relative_positions_buckets",
    "sliding_window",
    "attn_scaling",
    "parallel_residual",
    "ffn_layernorm",
    "query_norm",
    "key_norm",
    "value_norm",
    "q_gating",
    "num_experts",
    "layer_types",
    "num_mtp_heads",
)
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "gated-silu": "swiglu"}
"""Our feed-forward sublayers by their activations."""
POSITIONS: Mapping[str | None, Positions | None] = {
    "SinusoidalInterleaved": "sinusoidal",
    "SinusoidalConcat": "blocked_sinusoidal",
    "Learned": "learned",
    "Relative": "relative",
    "Rotary": "rotary",
    "Alibi": "linear_bias",
    None: None,
}
OF_TRAINING = ("filtertoolong", "filtertooshort", "switchout", "tokendrop", "tokenmask", "bart")
"""Transforms of training data only."""
_PARTS = {"attention": "self_attn", "residuals.0.norm": "input_layernorm", "feed_forward.outer": "mlp.down_proj"}
_PLAIN = {"feed_forward.inner": "mlp.gate_up_proj"}
_GATED = {"feed_forward.gate": "mlp.gate_up_proj", "feed_forward.inner": "mlp.up_proj"}


class Eole(AbstractKind):
    """A folder with `config.json`, `vocab.json` and `model.00.safetensors`.

    Texts are symbols between blanks, as the program reads them after its transforms.
    """

    summary = "eole 0.6 (a model folder): recurrent models and Transformers that turn texts into texts"
    facts: ClassVar[Mapping[str, str]] = {
        "prepared": "true: texts are already transformed as by the transforms of the model, which are not applied here"
    }

    def read(self, origin: Origin) -> Converted:
        folder = require_folder(origin.path, CONFIGURATION, PROGRAM)
        configuration = mapping(read_json(folder / CONFIGURATION), folder / CONFIGURATION, "a configuration")
        model = mapping(configuration.get("model"), folder / CONFIGURATION, "a section `model`")
        training = mapping(configuration.get("training") or {}, folder / CONFIGURATION, "a section `training`")
        inference = mapping(configuration.get("inference") or {}, folder / CONFIGURATION, "a section `inference`")
        notes = _prepared(configuration.get("transforms") or [], origin)
        source, target = _symbols(folder / VOCABULARIES)
        options = Options(model, PROGRAM, _MODEL)
        for name in ("generator_function", "add_estimator", "left_pad"):
            options.require(name, [_MODEL[name]])
        embeddings = Options(model.get("embeddings") or {}, PROGRAM, _EMBEDDINGS)
        for name in ("embedding_type", "position_shift", "embedding_layer_norm"):
            embeddings.require(name, [_EMBEDDINGS[name]])
        weights = _weights(folder, options)
        names: Any
        if _side(model, "decoder").get("decoder_type", "rnn") == "rnn":
            network = _recurrent(model, options, embeddings, training)
            section, weights, names = network.section(), network.arranged(weights), network.names()
        else:
            section = _transformer(model, options, embeddings, training)
            names = naming(gated=section["encoder"]["activation"] == "swiglu").names
        weights = ordered(weights, {SOURCE: source, TARGET: target, "generator": target}, output="generator")
        data: dict[str, Any] = {"source": SIDE, "target": SIDE, "source_end": False}
        data["joint_vocabulary"] = section["shared_embeddings"]
        if (positions := section["encoder"].get("max_positions")) is not None:
            data["max_length"] = positions - 1
        return text_model(
            split_field(source),
            split_field(target),
            weights,
            names,
            data=data,
            model=section,
            decoding=search_section(Options(inference, PROGRAM, EOLE), notes),
            notes=notes,
            without_bias=_without_bias(model, options),
        )


def _prepared(transforms: Sequence[str], origin: Origin) -> list[str]:
    """A note about the transforms that `eole predict` applies to inputs and reverses in outputs."""
    applied = ", ".join(str(name) for name in transforms if name not in OF_TRAINING)
    if not applied:
        return []
    if origin.facts.get("prepared") is not True:
        raise UnsupportedError(
            f"{PROGRAM} applies the transforms {applied} to inputs and reverses them in outputs, which is "
            f"not supported here. Apply them to texts before, and add {PREPARED_FACT}."
        )
    return [f"Inputs must be transformed before ({applied}), and outputs are not transformed back."]


def naming(*, gated: bool) -> Naming:
    """The names of a Transformer's weights."""
    inside = {**_PARTS, **(_GATED if gated else _PLAIN)}
    return Naming(
        source=SOURCE,
        target=TARGET,
        positions=("src_emb.pe", "tgt_emb.pe"),
        offsets_of_keys=f"{OFFSETS}{SCALED}",
        layers={side: f"{side}.transformer_layers" for side in ("encoder", "decoder")},
        parts={
            "encoder": {**inside, "residuals.1.norm": "post_attention_layernorm"},
            "decoder": {
                **inside,
                "cross_attention": "context_attn",
                "residuals.1.norm": "precontext_layernorm",
                "residuals.2.norm": "post_attention_layernorm",
            },
        },
    )


def _symbols(path: Path) -> tuple[Symbols, Symbols]:
    """The vocabularies of both sides."""
    vocabularies = mapping(read_json(path), path, "vocabularies by side")
    named = {**SPECIALS, **(vocabularies.get("specials") or {})}
    specials = {"padding": "pad_token", "begin": "bos_token", "end": "eos_token", "unknown": "unk_token"}
    return side_symbols(vocabularies, path, **{name: named[theirs] for name, theirs in specials.items()})


def _side(model: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The options of the encoder or the decoder, by default those of the model."""
    side = model.get(name)
    if not isinstance(side, Mapping):
        raise UnsupportedError(f"The model of {PROGRAM} has no {name}; only text-to-text models are read.")
    return {**{key: value for key, value in model.items() if not isinstance(value, Mapping) or "rope" in key}, **side}


def _without_bias(model: Mapping[str, Any], options: Options) -> list[str]:
    """Patterns of the names of modules without a bias; an encoder's output projections never have one."""
    patterns = ["*.final_linear"] + ([] if options["generator_bias"] else ["generator"])
    for name in ("encoder", "decoder"):
        if not Options(_side(model, name), PROGRAM, _TRANSFORMER)["add_ffnbias"]:
            patterns.append(f"{name}.*.mlp.*")
    return patterns


def _rate(training: Mapping[str, Any], name: str) -> float:
    """The first dropout rate."""
    rate = training.get(name, 0.0)
    return float(rate[0] if isinstance(rate, list) else rate)


def _recurrent(
    model: Mapping[str, Any], options: Options, embeddings: Options, training: Mapping[str, Any]
) -> GlobalAttentionModel:
    encoder, decoder = (Options(_side(model, name), PROGRAM, _RECURRENT) for name in ("encoder", "decoder"))
    kind = encoder.require("encoder_type", ["rnn", "brnn"])
    added = [None, "SinusoidalInterleaved", "SinusoidalConcat"]
    kind_of_positions = embeddings.require("position_encoding_type", added, "recurrent networks have no others here")
    embeddings.require("normalize", [False])
    decoder.require("coverage_attn", [False])
    decoder.require("context_gate", [None])
    decoder.require("rnn_type", [encoder["rnn_type"]], "the first states are the encoder's")
    decoder.require("layers", [encoder["layers"]], "the layers of the decoder start from those of the encoder")
    attention = decoder.require("global_attention", ["dot", "general", "mlp", "none", None])
    feeding = bool(options["input_feed"])
    if feeding and attention in ("none", None):
        raise UnsupportedError("input_feed without global_attention is not supported.")
    return GlobalAttentionModel(
        cell=CELLS[encoder.require("rnn_type", ["LSTM", "GRU"])],
        bidirectional=kind == "brnn",
        layers=encoder["layers"],
        size=decoder["hidden_size"],
        source_size=embeddings["src_word_vec_size"],
        target_size=embeddings["tgt_word_vec_size"],
        input_feeding=feeding,
        attention=None if attention == "none" else attention,
        alignment=decoder.require("global_attention_function", ["softmax"]),
        bridge=bool(encoder["bridge"]),
        tied_weights=bool(options["share_decoder_embeddings"]),
        shared_embeddings=bool(options["share_embeddings"]),
        positions=POSITIONS[kind_of_positions],
        dropout=_rate(training, "dropout"),
        source=SOURCE,
        target=TARGET,
    )


def _transformer(
    model: Mapping[str, Any], options: Options, embeddings: Options, training: Mapping[str, Any]
) -> dict[str, Any]:
    sides = [Options(_side(model, name), PROGRAM, _TRANSFORMER) for name in ("encoder", "decoder")]
    encoder, decoder = sides
    encoder.require("encoder_type", ["transformer"])
    encoder.require("encoder_layer_style", ["standard"])
    encoder.require("final_encoder_layer_norm", [True])
    for side in sides:
        side.require("layer_norm", ["standard", "standardFP32"])
        for name in UNREAD:
            side.require(name, ABSENT)
    for name in ("hidden_size", "heads", "heads_kv", "transformer_ff", "mlp_activation_fn", "norm_eps", "add_qkvbias"):
        encoder.require(name, [decoder[name]], "both sides must have the same here")
    decoder.require("head_dim", [None, decoder["hidden_size"] // decoder["heads"]])
    kind = embeddings.require("position_encoding_type", list(POSITIONS))
    if kind == "Learned":
        embeddings.require("normalize", [False], "it would also scale the positions")
    rotation = Options(decoder["rope_config"] or {}, PROGRAM, _ROTATION)
    if kind == "Rotary":
        rotation.require("rotary_dim", [0, decoder["hidden_size"] // decoder["heads"]])
        for name in ("scaling_type", "xdrope_section", "interleave_local", "partial_rotary_factor", "tmax_index"):
            rotation.require(name, [_ROTATION[name]])
    return pre_norm_transformer(
        {
            "size": decoder["hidden_size"],
            "heads": decoder["heads"],
            "key_value_heads": decoder["heads_kv"] or None,
            "feed_forward_size": decoder["transformer_ff"],
            "activation": ACTIVATIONS[decoder.require("mlp_activation_fn", list(ACTIVATIONS))],
            "norm_epsilon": float(decoder["norm_eps"]),
            "projection_bias": bool(decoder["add_qkvbias"] or decoder["add_final_linear_bias"]),
            "positions": POSITIONS[kind],
            "max_positions": embeddings["n_positions"] if kind == "Learned" else None,
            "scaled_embeddings": "Sinusoidal" in str(kind) or bool(embeddings["normalize"]),
            "dropout": _rate(training, "dropout"),
            "attention_dropout": _rate(training, "attention_dropout"),
        },
        (encoder["layers"], decoder["layers"]),
        {
            "rotary_layout": "interleaved" if rotation["rotary_interleave"] else "half",
            "rotary_base": float(rotation["rotary_theta"]),
            "max_distance": embeddings["n_positions"] or 1,
            "shared_offsets": False,
        },
        tied_weights=bool(options["share_decoder_embeddings"]),
        shared_embeddings=bool(options["share_embeddings"]),
    )


def _weights(folder: Path, options: Options) -> dict[str, Tensor]:
    """The weights by name, including shared ones, which the program saves once."""
    if (folder / "model.01.safetensors").exists():
        raise UnsupportedError(f"{folder}: its weights are in several files; only {WEIGHTS} is read.")
    weights = {}
    for name, tensor in read_safetensors(folder / WEIGHTS).items():
        if name.endswith(".layer_scalar"):  # of other architectures
            if not torch.equal(tensor, torch.ones_like(tensor)):
                raise UnsupportedError(f"{name} is {tensor.tolist()}; a factor other than 1 is not supported.")
        elif not name.endswith((".pe.pe", ".cos_sin")):  # tables that are computed from options
            weights[name] = tensor
    for name in [name for name in weights if name.endswith(f".{OFFSETS}.weight")]:
        weights[name.replace(OFFSETS, f"{OFFSETS}{SCALED}")] = weights[name] * weights[name].shape[1] ** 0.5
    for name, one, other in (
        ("share_embeddings", f"{SOURCE}.weight", f"{TARGET}.weight"),
        ("share_decoder_embeddings", f"{TARGET}.weight", "generator.weight"),
    ):
        if options[name] and one in weights:
            weights.setdefault(other, weights[one])
    return weights
