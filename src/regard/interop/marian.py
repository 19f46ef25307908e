"""Marian models: folders as transformers saves them, and their weights as our modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.text import Field, Normalisation
from regard.data.text.pieces import SentencePieceUnits
from regard.errors import DataError, UnsupportedError
from regard.interop.contract import AbstractKind, Converted, Origin
from regard.interop.files import mapping, read_checkpoint, read_json, read_safetensors, require, require_folder, tensors
from regard.interop.named_weights import Names, load_named
from regard.interop.options import Options
from regard.interop.pieces import of_pieces
from regard.interop.texts import Symbols, text_model
from regard.interop.transformers import (
    ACTIVATIONS,
    ATTENTION_NAMES,
    CALLERS_POSITIONS,
    activation_named,
    build_transformer,
    transformer_names,
)
from regard.layers import SinusoidalPositions
from regard.models import EncoderDecoder, TransformerOptions

PROGRAM = "Marian in transformers"
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
"""Files of weights; the first if both exist."""
DEFAULTS: Mapping[str, Any] = {
    "scale_embedding": False,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "normalize_embedding": False,
    "normalize_before": False,
    "add_final_layer_norm": False,
    "eos_token_id": 0,
}
OF_SEARCH: Mapping[str, Any] = {
    "num_beams": 1,
    "num_return_sequences": 1,
    "early_stopping": False,
    "length_penalty": 1.0,
    "max_length": 20,
    "max_new_tokens": None,
    "min_length": 0,
    "min_new_tokens": None,
    "no_repeat_ngram_size": 0,
    "bad_words_ids": None,
    "renormalize_logits": False,
    "forced_eos_token_id": None,
}
"""The defaults of `generate`."""
LEFT_OUT: Mapping[str, Any] = {
    "do_sample": False,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "diversity_penalty": 0.0,
    "num_beam_groups": 1,
    "penalty_alpha": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
    "forced_bos_token_id": None,
    "max_time": None,
    "stop_strings": None,
}
"""Settings of `generate` that are not carried over, with their neutral values."""
SIDE: Mapping[str, Any] = {"units": "sentencepiece", "unicode": "keep"}
COMPUTED = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")
"""Tables of sinusoidal positions."""
SIDES = ("encoder", "decoder")
MARIAN_ENCODER: Names = {
    **{f"attention.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION_NAMES.items()},
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "residuals.0.norm": "self_attn_layer_norm",
    "residuals.1.norm": "final_layer_norm",
}
"""A layer of the encoder of transformers' `MarianMTModel`."""
MARIAN_DECODER: Names = {
    **MARIAN_ENCODER,
    **{f"cross_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION_NAMES.items()},
    "residuals.1.norm": "encoder_attn_layer_norm",
    "residuals.2.norm": "final_layer_norm",
}
"""A layer of its decoder."""


class Marian(AbstractKind):
    """A folder of `MarianMTModel.save_pretrained` and `MarianTokenizer.save_pretrained`."""

    summary = "Marian as transformers 4 saves it (folder): Transformers with their sentencepiece models"

    def read(self, origin: Origin) -> Converted:
        """The model. Outputs begin with the padding there; our begin symbol has its vector."""
        folder = require_folder(origin.path, "config.json", PROGRAM)
        config = mapping(read_json(folder / "config.json"), folder / "config.json", "the configuration of a model")
        options = Options(config, PROGRAM, DEFAULTS)
        options.require("model_type", ["marian"], "only Marian models are read")
        for name in ("normalize_embedding", "normalize_before", "add_final_layer_norm"):
            options.require(name, [False], "no published Marian model has it")
        source, target, fields = _symbols(folder, options)
        weights, tied = _weights(folder, source, target)
        notes: list[str] = []
        settings = _settings(folder / "generation_config.json") or {"forced_eos_token_id": 0, **config}
        specials = "excluded" if settings.get("renormalize_logits") else "forbidden"
        names = _names([options[f"{side}_layers"] for side in SIDES])
        return text_model(
            *fields,
            weights,
            names,
            data={"source": SIDE, "target": SIDE},
            model={
                "architecture": "transformer",
                "encoder": _side(options, "encoder"),
                "decoder": {**_side(options, "decoder"), "tied_weights": tied, "specials": specials},
            },
            decoding=_decoding(settings, options, notes),
            notes=notes,
        )


def _symbols(folder: Path, options: Options) -> tuple[Symbols, Symbols, tuple[Field, Field]]:
    """The symbols of both sides, and their fields."""
    tokenizer = _settings(folder / "tokenizer_config.json")
    separate = bool(tokenizer.get("separate_vocabs", False))
    both = _tokens(folder / "vocab.json")
    sides = (both, _tokens(folder / "target_vocab.json") if separate else both)
    places, fields = [], []
    for side, tokens in zip(("source", "target"), sides, strict=True):
        codes = [token for token in tokens if token.startswith(">>") and token.endswith("<<")]
        if codes:
            raise UnsupportedError(
                f"The vocabulary of the model of {PROGRAM} has language codes ({', '.join(codes[:5])}); multilingual "
                "models, whose texts begin with them, are not supported."
            )
        start = options["decoder_start_token_id"]
        if not 0 <= start < len(tokens) or tokens[options["eos_token_id"]] != tokenizer.get("eos_token", "</s>"):
            raise DataError(
                f"{folder / 'config.json'}: decoder_start_token_id {start} and eos_token_id {options['eos_token_id']} "
                f"do not fit the vocabulary of {len(tokens):,} symbols; do the files belong together?"
            )
        symbols = Symbols.of(
            tokens,
            padding=tokenizer.get("pad_token", "<pad>"),
            begin=tokens[start],
            end=tokens[options["eos_token_id"]],
            unknown=tokenizer.get("unk_token", "<unk>"),
        )
        units = SentencePieceUnits(require(folder / f"{side}.spm").read_bytes())
        places.append(of_pieces(units, symbols))
        fields.append(Field(Normalisation("keep", "keep"), units, places[-1].vocabulary))
    return places[0], places[1], (fields[0], fields[1])


def _tokens(path: Path) -> list[str]:
    """The symbols of a vocabulary in the order of their ids."""
    ids = mapping(read_json(path), path, "ids of symbols")
    if sorted(ids.values()) != list(range(len(ids))):
        raise DataError(f"{path}: ids are not 0 to {len(ids) - 1}, each once.")
    return sorted(ids, key=lambda token: int(ids[token]))


def _weights(folder: Path, source: Symbols, target: Symbols) -> tuple[dict[str, Tensor], bool]:
    """The weights with rows in our order, and whether the output layer shares the matrix of the target's embedding."""
    path = folder / SAFE
    if path.exists():
        saved = read_safetensors(path)
    else:
        path = folder / PICKLED
        saved = tensors(read_checkpoint(path), path, "weights by name")
    theirs = _named(saved)
    is_tied = torch.equal(theirs["output.weight"], theirs["target.weight"])
    for name, symbols, original in (
        ("source", source, "model.encoder.embed_tokens.weight"),
        ("target", target, "model.decoder.embed_tokens.weight"),
        ("output", target, "lm_head.weight"),
    ):
        theirs[f"{name}.weight"] = symbols.rows(theirs[f"{name}.weight"], original)
    theirs["output.bias"] = target.biases(theirs.get("output.bias"), "final_logits_bias")
    return theirs, is_tied


def _named(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights without tables of positions; embeddings and output layer are named source, target and output."""
    theirs = {name.removeprefix("model."): tensor for name, tensor in weights.items()}
    shared, bias = theirs.pop("shared.weight", None), theirs.pop("final_logits_bias", None)
    source, target = (theirs.pop(f"{side}.embed_tokens.weight", shared) for side in SIDES)
    if source is None or target is None:
        raise DataError("There is no weight model.shared.weight, nor embed_tokens.weight of both sides.")
    output = theirs.pop("lm_head.weight", target)
    named = {name: tensor for name, tensor in theirs.items() if name not in COMPUTED}
    named |= {"source.weight": source, "target.weight": target, "output.weight": output}
    return named if bias is None else named | {"output.bias": bias.flatten()}


def _names(layers: Sequence[int]) -> dict[str, str]:
    """The names of the weights of `_named`, by ours."""
    tables = (MARIAN_ENCODER, MARIAN_DECODER)
    return transformer_names(layers, tables, source="source", target="target", output="output")


def _side(options: Options, side: str) -> dict[str, Any]:
    """The section of the encoder or the decoder."""
    return {
        "size": options["d_model"],
        "layers": options[f"{side}_layers"],
        "heads": options[f"{side}_attention_heads"],
        "feed_forward_size": options[f"{side}_ffn_dim"],
        "activation": ACTIVATIONS[options.require("activation_function", list(ACTIVATIONS))],
        "norm": "post",
        "final_norm": False,
        "positions": "half_sinusoidal",
        "projection_bias": True,
        "scaled_embeddings": bool(options["scale_embedding"]),
        "dropout": float(options["dropout"]),
        "attention_dropout": float(options["attention_dropout"]),
        "activation_dropout": float(options["activation_dropout"]),
    }


def _settings(path: Path) -> Mapping[str, Any]:
    """The values of a file that older versions do not write; empty if it is missing."""
    return mapping(read_json(path), path, "settings by name") if path.exists() else {}


def _decoding(settings: Mapping[str, Any], options: Options, notes: list[str]) -> dict[str, Any]:
    """The section `decoding`. Lengths there include the begin symbol and a forced end."""
    search = Options({name: value for name, value in settings.items() if value is not None}, PROGRAM, OF_SEARCH)
    beam, penalty = search["num_beams"], float(search["length_penalty"])
    longest = search["max_new_tokens"] or search["max_length"] - 1
    forced = search["forced_eos_token_id"] is not None
    section: dict[str, Any] = {
        "beam": beam,
        "num_best": search["num_return_sequences"],
        "max_length": max(1, longest - forced),
        "min_length": max(0, search["min_new_tokens"] or search["min_length"] - 1),
        "no_repeat_ngram_size": search["no_repeat_ngram_size"],
        "length_penalty": "average" if penalty == 1 else "power" if penalty else "none",
    }
    if penalty < 0:
        notes.append(f"length_penalty: {penalty} is ignored; outputs are ranked by their log-probability.")
        section["length_penalty"] = "none"
    elif section["length_penalty"] == "power":
        section["alpha"] = penalty
    if beam > 1:
        section["stop"] = {False: "full", True: "patience"}.get(search["early_stopping"], "optimal")
    for name, neutral in LEFT_OUT.items():
        if (value := settings.get(name)) not in (None, neutral):
            notes.append(f"{name}: {value} is ignored by the search.")
    others = [words for words in search["bad_words_ids"] or [] if words != [options["pad_token_id"]]]
    if others:
        notes.append(f"bad_words_ids: {len(others)} of them are ignored; decoding.exclude takes texts.")
    return section


def from_marian(
    weights: Mapping[str, Tensor], config: Mapping[str, Any], *, never: Sequence[int] = (), dropout: float = 0.0
) -> EncoderDecoder:
    """A Marian model of transformers as our modules.

    `from_marian(model.state_dict(), model.config.to_dict())` takes a `MarianMTModel`. The outputs are the log softmax
    of its logits, equal up to rounding. Weights are copied. A target begins with `config["decoder_start_token_id"]` and
    ends with `config["eos_token_id"]`.

    Args:
        weights: of `MarianMTModel`, by name.
        config: its configuration.
        never: ids that are never predicted; Marian's own models never predict `pad_token_id`.
        dropout: of embeddings and sublayers in later training.

    Raises:
        UnsupportedError: for an option that Marian's own models do not have.
        DataError: for weights that do not fit.
    """
    if config.get("normalize_embedding") or config.get("normalize_before"):
        raise UnsupportedError("normalize_embedding and normalize_before must be false, as in all Marian models.")
    options = TransformerOptions(
        activation=activation_named(config["activation_function"]),  # type: ignore[arg-type]
        final_norm=False,
        scaled_embeddings=bool(config["scale_embedding"]),
        projection_bias=True,
    )
    sides = [
        {
            "num_layers": config[f"{side}_layers"],
            "num_heads": config[f"{side}_attention_heads"],
            "feed_forward_size": config[f"{side}_ffn_dim"],
            "norm": "post",
            "options": options,
        }
        for side in SIDES
    ]
    theirs = _named(weights)
    source, target, output = (theirs[f"{name}.weight"] for name in ("source", "target", "output"))
    theirs.setdefault("output.bias", target.new_zeros(len(target)))
    model = build_transformer(
        (len(source), len(target)),
        config["d_model"],
        sides,
        positions=SinusoidalPositions(config["d_model"], layout="half"),
        tied=torch.equal(output, target),
        never=never,
        dropout=dropout,
    )
    return load_named(model, theirs, _names([side["num_layers"] for side in sides]), skip=CALLERS_POSITIONS)
