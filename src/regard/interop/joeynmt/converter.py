"""Model folders of Joey NMT."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from regard.data.text import Field, Normalisation
from regard.data.text.pieces import BLANK, SentencePieceUnits
from regard.data.text.units import CharacterUnits, Units, WhitespaceUnits
from regard.errors import DataError, UnsupportedError
from regard.interop.contract import PREPARED_FACT, AbstractKind, Converted, Origin
from regard.interop.files import mapping, read_checkpoint, read_text, read_yaml, require, require_folder, tensors
from regard.interop.joeynmt import PROGRAM
from regard.interop.joeynmt import recurrent as joeynmt_recurrent
from regard.interop.joeynmt import transformer as joeynmt_transformer
from regard.interop.options import Options
from regard.interop.pieces import of_pieces, restricted
from regard.interop.texts import Symbols, text_model

SIDES = {"src": "source", "trg": "target"}
SPECIALS: Mapping[str, str] = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
PARTS: Mapping[str, Any] = {"recurrent": joeynmt_recurrent, "transformer": joeynmt_transformer}
"""The encoders and decoders of each type."""
OF_SIDE: Mapping[str, Any] = {"lowercase": False, "normalize": False, "tokenizer_cfg": {}}
OF_SEARCH: Mapping[str, Any] = {
    "beam_size": 1,
    "n_best": 1,
    "beam_alpha": -1,
    "max_output_length": -1,
    "min_output_length": 1,
    "generate_unk": True,
    "repetition_penalty": -1,
    "no_repeat_ngram_size": -1,
}
PREPARED = (
    "Inputs must be prepared as the training data were ({what}), and outputs are not converted back; this "
    "preprocessing is not supported here."
)


class JoeyNMT(AbstractKind):
    """A model folder: `config.yaml`, `best.ckpt`, `src_vocab.txt`, `trg_vocab.txt` and models of pieces."""

    summary = "Joey NMT 2 (model folder): recurrent models and Transformers"
    files: ClassVar[Mapping[str, str]] = {
        "checkpoint": "the weights, in place of best.ckpt",
        "source_pieces": "the sentencepiece model of the source, in place of the one in the folder",
        "target_pieces": "that of the target",
    }
    facts: ClassVar[Mapping[str, str]] = {
        "prepared": "true: texts are already preprocessed as in Joey NMT, if it used normalize, a pretokenizer or "
        "subword-nmt, which are unknown here"
    }

    def read(self, origin: Origin) -> Converted:
        """The model. Blanks in texts of level `char`, `▁` in Joey NMT, are blanks here."""
        folder = origin.path.parent if origin.path.suffix == ".ckpt" else origin.path
        require_folder(folder, "config.yaml", PROGRAM)
        checkpoint = origin.files.get("checkpoint", folder / "best.ckpt" if origin.path.is_dir() else origin.path)
        path = folder / "config.yaml"
        config = mapping(read_yaml(path), path, "the configuration of a model")
        data, model = (mapping(config.get(name), path, f"a section {name!r}") for name in ("data", "model"))
        saved = mapping(read_checkpoint(checkpoint), checkpoint, "a checkpoint of Joey NMT")
        weights = tensors(saved.get("model_state"), checkpoint, "weights by name under 'model_state'")
        notes: list[str] = []
        sides = {name: _side(name, data, folder, origin, notes) for name in SIDES}
        source, target = sides["src"][1], sides["trg"][1]
        tied = bool(model.get("tied_embeddings", False)) and sides["src"][2] == sides["trg"][2]
        return text_model(
            sides["src"][0],
            sides["trg"][0],
            *_network(model, weights, source, target),
            data={"source": sides["src"][2], "target": sides["trg"][2], "joint_vocabulary": tied},
            model=_model(model, tied=tied),
            decoding=_decoding(config.get("testing") or {}, notes),
            notes=notes,
        )


def _side(
    name: str, data: Mapping[str, Any], folder: Path, origin: Origin, notes: list[str]
) -> tuple[Field, Symbols, dict[str, Any]]:
    """The field of a side, its symbols, and its section of the configuration."""
    options = Options(data.get(name) or {}, PROGRAM, OF_SIDE)
    inside = Options(options["tokenizer_cfg"] or {}, PROGRAM, {"pretokenizer": "none"})
    special = {**SPECIALS, **(data.get("special_symbols") or {})}
    for key in ("lang_tags", "sep_token"):
        if special.get(key):
            raise UnsupportedError(
                f"data.special_symbols.{key} of the model of {PROGRAM} is {special[key]!r}; multilingual models and "
                "models with prompts are not supported."
            )
    level = options.require("level", ["word", "char", "bpe"])
    kind = data[name].get("tokenizer_type", data[name].get("bpe_type", "sentencepiece")) if level == "bpe" else None
    preprocessing = [
        *(["normalize"] if options["normalize"] else []),
        *([f"pretokenizer: {inside['pretokenizer']}"] if str(inside["pretokenizer"]).lower() != "none" else []),
        *([f"tokenizer_type: {kind}"] if kind not in (None, "sentencepiece") else []),
    ]
    if preprocessing:
        if origin.facts.get("prepared") is not True:
            raise UnsupportedError(
                f"data.{name} of the model of {PROGRAM} has {', '.join(preprocessing)}, which is not supported here. "
                f"Preprocess texts before, and add {PREPARED_FACT}."
            )
        notes.append(PREPARED.format(what=f"data.{name}: {', '.join(preprocessing)}"))
    tokens = read_text(folder / f"{name}_vocab.txt").splitlines()
    if level == "char":
        tokens = [" " if token == BLANK else token for token in tokens]
    symbols = Symbols.of(
        tokens,
        padding=special["pad_token"],
        begin=special["bos_token"],
        end=special["eos_token"],
        unknown=special["unk_token"],
    )
    units: Units = CharacterUnits() if level == "char" else WhitespaceUnits()
    section: dict[str, Any] = {"units": "character" if level == "char" else "whitespace", "unicode": "keep"}
    if kind == "sentencepiece":
        model = origin.files.get(f"{SIDES[name]}_pieces", folder / Path(str(inside["model_file"])).name)
        units = SentencePieceUnits(restricted(require(model).read_bytes(), set(symbols.vocabulary.symbols)))
        symbols = of_pieces(units, symbols)
        section["units"] = "sentencepiece"
    section["case"] = "lower" if options["lowercase"] else "keep"
    return Field(Normalisation(section["case"], "keep"), units, symbols.vocabulary), symbols, section


def _model(model: Mapping[str, Any], *, tied: bool) -> dict[str, Any]:
    """The section `model`."""
    types = {part: _type(model, part) for part in ("encoder", "decoder")}
    if len(set(types.values())) > 1:
        raise UnsupportedError(
            f"The model of {PROGRAM} has an encoder of type {types['encoder']!r} and a decoder of type "
            f"{types['decoder']!r}; both must be of one type."
        )
    section: dict[str, Any] = PARTS[types["encoder"]].section(model)
    section["decoder"]["specials"] = "forbidden"
    return {**section, "shared_embeddings": tied}


def _type(model: Mapping[str, Any], part: str) -> str:
    """The type of the encoder or the decoder, whose defaults differ."""
    default = "recurrent" if part == "encoder" else "transformer"
    kind = str(mapping(model.get(part), Path("config.yaml"), f"a section model.{part}").get("type", default))
    if kind not in PARTS:
        raise UnsupportedError(
            f"model.{part}.type of the model of {PROGRAM} is {kind!r}; there are {', '.join(PARTS)}."
        )
    return kind


def _network(
    model: Mapping[str, Any], weights: dict[str, Tensor], source: Symbols, target: Symbols
) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    """The weights with the rows of symbols in our order, and their names by ours."""
    part = PARTS[_type(model, "decoder")]
    owners = {"src_embed.lut.weight": source, "trg_embed.lut.weight": target, "decoder.output_layer.weight": target}
    for name in owners:
        if name not in weights:
            raise DataError(f"There is no weight {name} in the checkpoint of {PROGRAM}.")
    rows = {
        **{name: symbols.rows(weights[name], name) for name, symbols in owners.items()},
        "decoder.output_layer.bias": target.biases(None),
    }
    names: Mapping[str, str] = part.names(model)
    return part.weights({**weights, **rows}, model), names


def _decoding(testing: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The section `decoding`."""
    options = Options(testing, PROGRAM, OF_SEARCH)
    alpha = testing.get("alpha", options["beam_alpha"])
    section: dict[str, Any] = {"beam": max(1, options["beam_size"]), "num_best": options["n_best"], "min_length": 1}
    if options["min_output_length"] != 1:
        notes.append(
            f"testing.min_output_length: {options['min_output_length']} is ignored, as in {PROGRAM} itself, whose "
            "outputs have at least 1 symbol (decoding.min_length)."
        )
    section |= {"length_penalty": "gnmt", "alpha": float(alpha)} if alpha > 0 else {"length_penalty": "none"}
    if options["max_output_length"] > 0:
        section["max_length"] = options["max_output_length"]
    else:
        section |= {"max_length_ratio": 1.5, "max_length_extra": 1.5}  # lengths include the end symbol
    if not options["generate_unk"]:
        section["unknown_penalty"] = 1000.0
    for key in ("repetition_penalty", "no_repeat_ngram_size"):
        if options[key] > 1:
            notes.append(
                f"testing.{key}: {options[key]} is ignored; in {PROGRAM} it also counts symbols of the input, but "
                f"decoding.{key} only those of the output."
            )
    return section
