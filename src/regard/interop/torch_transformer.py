"""Translation models around `torch.nn.Transformer`; a file of facts has what their weights do not show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field as Key
from torch import Tensor, nn

from regard.config.schema import Section, Size
from regard.data.text import Field, Normalisation
from regard.data.text.field import PLAIN_UNITS
from regard.data.text.pieces import SentencePieceUnits
from regard.data.text.units import Units
from regard.errors import DataError, UnsupportedError
from regard.interop.contract import AbstractKind, Converted, Origin
from regard.interop.files import mapping, read_checkpoint, read_lines, read_safetensors, read_yaml, require, tensors
from regard.interop.named_weights import load_named
from regard.interop.options import validated
from regard.interop.pieces import of_pieces
from regard.interop.texts import Symbols, text_model
from regard.interop.transformers import (
    ATTENTION_NAMES,
    CALLERS_POSITIONS,
    activation_named,
    build_transformer,
    transformer_names,
)
from regard.layers import SinusoidalPositions
from regard.models import EncoderDecoder, TransformerOptions

PROGRAM = "torch.nn.Transformer"
SAFE = ".safetensors"
CLOSE = 1e-4
"""The largest difference of a table of sinusoidal positions in float32 from ours."""
EXAMPLE = """\
  weights: {weights}
  names: {{transformer: transformer, source: source_embedding, target: target_embedding, output: generator}}
  heads: 8
  scaled_embeddings: true
  positions: sinusoidal
  source_begin: true
  source_end: true
  source: {{units: whitespace, vocabulary: source.txt}}
  target: {{units: whitespace, vocabulary: target.txt}}"""
"""The shortest file of facts."""
SEARCHED = (
    "torch.nn.Transformer has no search; the model here has a beam of {facts.beam} and outputs of at most "
    "{facts.max_length} symbols (facts beam and max_length; greedy search is beam: 1)."
)
LAYER = re.compile(r"(?P<side>encoder|decoder)\.layers\.(?P<number>\d+)\.")
TORCH_ENCODER: Mapping[str, str] = {
    **{f"attention.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION_NAMES.items()},
    "feed_forward.inner": "linear1",
    "feed_forward.outer": "linear2",
    "residuals.0.norm": "norm1",
    "residuals.1.norm": "norm2",
}
"""A layer of `torch.nn.TransformerEncoder`, with a name for each of its stacked projections."""
TORCH_DECODER: Mapping[str, str] = {
    **TORCH_ENCODER,
    **{f"cross_attention.{ours}": f"multihead_attn.{theirs}" for ours, theirs in ATTENTION_NAMES.items()},
    "residuals.2.norm": "norm3",
}
"""A layer of `torch.nn.TransformerDecoder`."""
STACKED = ("q_proj", "k_proj", "v_proj")
"""The order of torch's stacked projections."""


class Specials(Section):
    """The special symbols, by their names in the vocabularies."""

    padding: str = Key(default="<pad>", description="fills up sources")
    begin: str = Key(default="<bos>", description="the first input of the decoder")
    end: str = Key(default="<eos>", description="ends outputs, and sources if source_end is true")
    unknown: str = Key(default="<unk>", description="a symbol that is not in the vocabulary")


class SideFacts(Section):
    """The texts of a side."""

    units: Literal["character", "word", "whitespace", "byte", "sentencepiece"] = Key(description="what a symbol is")
    vocabulary: str = Key(description="a text file with the symbol of each id in a line, the specials among them")
    pieces: str | None = Key(default=None, description="the sentencepiece model of units sentencepiece")
    case: Literal["keep", "upper", "lower"] = Key(default="keep", description="the letter case of every text")
    unicode: Literal["keep", "NFC", "NFD", "NFKC", "NFKD"] = Key(default="keep", description="its Unicode normal form")


class PartNames(Section):
    """The names of parts in the state dict."""

    transformer: str = Key(default="transformer", description="the nn.Transformer; empty if it is the whole model")
    source: str = Key(default="source", description="the nn.Embedding of the source")
    target: str = Key(default="target", description="that of the target")
    output: str = Key(default="output", description="the nn.Linear of the output")
    positions: tuple[str, ...] = Key(
        default=(),
        strict=False,
        description="tables of positions: learned ones of source and target, or one for both; sinusoidal ones if they "
        "were saved, which are compared with ours",
    )


class StateFacts(Section):
    """Facts that a state dict does not contain."""

    weights: str = Key(description="the state dict: a file of torch.save, or a safetensors file")
    names: PartNames = Key(default=PartNames(), description="where parts are in the state dict")
    heads: Size = Key(description="nhead")
    norm_first: bool = Key(default=False, description="norm_first")
    activation: Literal["relu", "gelu"] = Key(default="relu", description="activation")
    norm_epsilon: Annotated[float, Key(gt=0.0)] = Key(default=1e-5, description="layer_norm_eps")
    scaled_embeddings: bool = Key(description="whether embeddings are multiplied by the square root of d_model")
    positions: Literal["sinusoidal", "half_sinusoidal", "learned"] | None = Key(
        description="what is added to embeddings"
    )
    specials: Specials = Key(default=Specials(), description="the symbols without a text")
    specials_count: bool = Key(
        default=True, description="whether padding and begin count in the softmax, as after a plain nn.Linear"
    )
    source_begin: bool = Key(
        description="whether the begin symbol precedes every source, as in the translation tutorial of PyTorch"
    )
    source_end: bool = Key(description="whether the end symbol follows every source")
    source: SideFacts = Key(description="the texts of inputs")
    target: SideFacts = Key(description="the texts of outputs")
    beam: Size = Key(default=5, description="of searches; 1: greedy")
    max_length: Size = Key(default=400, description="the most symbols of an output")


class TorchTransformer(AbstractKind):
    """A file of facts in YAML, and the state dict and vocabularies that it names, relative to its folder."""

    summary = "models around torch.nn.Transformer (a YAML file of facts, which names the state dict)"

    def read(self, origin: Origin) -> Converted:
        """The model, with the sizes of its weights."""
        facts, folder = _facts(origin.path), origin.path.parent
        weights = _weights(folder / facts.weights, facts.names)
        sides = {name: _side(getattr(facts, name), folder, facts.specials) for name in ("source", "target")}
        size = weights["source.weight"].shape[-1]
        tables = [weights.pop(f"positions.{index}") for index in range(len(facts.names.positions))]
        longest = _check_positions(facts, tables, size)
        for name, symbols in (("source", sides["source"][1]), ("target", sides["target"][1])):
            weights[f"{name}.weight"] = symbols.rows(weights[f"{name}.weight"], getattr(facts.names, name))
        target = sides["target"][1]
        weights["output.weight"] = target.rows(weights["output.weight"], facts.names.output)
        weights["output.bias"] = target.biases(weights.get("output.bias"), facts.names.output)
        network = {side: _network(weights, side, facts, size, longest) for side in ("encoder", "decoder")}
        is_tied = torch.equal(weights["output.weight"], weights["target.weight"])
        network["decoder"]["tied_weights"] = is_tied
        network["decoder"]["specials"] = "forbidden" if facts.specials_count else "excluded"
        has_biases = any(
            name.endswith(".bias") and name.startswith(tuple(f"{side}." for side in network)) for name in weights
        )
        names = _names([side["layers"] for side in network.values()])
        if facts.positions == "learned":
            for side, table in zip(("encoder", "decoder"), (tables[0], tables[-1]), strict=True):
                names[f"{side}.embedding.positions.table"] = f"{side}.positions"
                weights[f"{side}.positions.weight"] = table
        return text_model(
            sides["source"][0],
            sides["target"][0],
            weights,
            names,
            data={
                **{name: sides[name][2] for name in sides},
                "source_begin": facts.source_begin,
                "source_end": facts.source_end,
                **({} if longest is None else {"max_length": longest - 1 - facts.source_begin}),
            },
            model={"architecture": "transformer", **network},
            decoding={"beam": facts.beam, "max_length": facts.max_length},
            without_bias=() if has_biases else ("*",),
            notes=[] if {"beam", "max_length"} <= facts.model_fields_set else [SEARCHED.format(facts=facts)],
        )


def _facts(path: Path) -> StateFacts:
    """The facts of a file."""
    if require(path).read_bytes().startswith((b"PK\x03\x04", b"\x80")) or path.suffix == SAFE:
        raise DataError(
            f"{path}: this is a file of weights, which do not show the number of heads and the parts around the "
            f"Transformer. FILE is a YAML file of facts that names it:\n{EXAMPLE.format(weights=path.name)}\n"
            "  docs/converting.md explains each."
        )
    values = mapping(read_yaml(path), path, "facts by name")
    return validated(StateFacts, values, path)


def _weights(path: Path, names: PartNames) -> dict[str, Tensor]:
    """The weights, with our names of the parts and their projections separated."""
    saved: Any = read_safetensors(path) if path.suffix == SAFE else read_checkpoint(path)
    saved = mapping(saved, path, "a state dict")
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(saved.get(key), Mapping):
            saved = saved[key]
    saved = tensors(saved, path, "a state dict")
    prefixes = {
        **{f"{getattr(names, part)}.": f"{part}." for part in ("source", "target", "output")},
        f"{names.transformer}." if names.transformer else "": "",
    }
    named: dict[str, Tensor] = {}
    for name, tensor in unstacked(saved):
        table = next((i for i, part in enumerate(names.positions) if name in (part, f"{part}.weight")), None)
        prefix = next((each for each in sorted(prefixes, key=len, reverse=True) if name.startswith(each)), None)
        if table is not None:
            named[f"positions.{table}"] = tensor
        elif prefix is not None:
            named[prefixes[prefix] + name.removeprefix(prefix)] = tensor
        else:
            named[name] = tensor  # belongs to no part; refused as left over
    for part in ("source", "target", "output"):
        if f"{part}.weight" not in named:
            raise DataError(f"{path}: there is no weight {getattr(names, part)}.weight; set names.{part} to its name.")
    for index, name in enumerate(names.positions):
        if f"positions.{index}" not in named:
            raise DataError(f"{path}: there is no table {name} (names.positions).")
    return named


def _side(facts: SideFacts, folder: Path, specials: Specials) -> tuple[Field, Symbols, dict[str, Any]]:
    """The field of a side, its symbols, and its section of the configuration."""
    symbols = Symbols.of(read_lines(folder / facts.vocabulary), **dict(specials))
    units: Units
    if facts.units == "sentencepiece":
        if facts.pieces is None:
            raise DataError("units: sentencepiece needs a model: set pieces to its file.")
        units = SentencePieceUnits(require(folder / facts.pieces).read_bytes())
        symbols = of_pieces(units, symbols)
    else:
        units = PLAIN_UNITS[facts.units]()
    section = {"units": facts.units, "case": facts.case, "unicode": facts.unicode}
    return Field(Normalisation(facts.case, facts.unicode), units, symbols.vocabulary), symbols, section


def _check_positions(facts: StateFacts, tables: list[Tensor], size: int) -> int | None:
    """The number of learned positions, or None."""
    if facts.positions == "learned":
        if len(tables) not in (1, 2):
            raise DataError("positions: learned needs one table, or one of each side, in names.positions.")
        if len({len(table) for table in tables}) > 1:
            raise DataError("The tables of learned positions of both sides must have the same number of rows.")
        return len(tables[0])
    layout: Any = "half" if facts.positions == "half_sinusoidal" else "interleaved"
    for name, table in zip(facts.names.positions, tables, strict=True):
        rows = table.reshape(-1, table.shape[-1])
        ours = SinusoidalPositions(size, layout=layout)(torch.arange(len(rows)), rows)
        if facts.positions is None or rows.shape != ours.shape or float((rows - ours).abs().max()) > CLOSE:
            raise DataError(f"{name} is not a table of positions: {facts.positions}.")
    return None


def _network(
    weights: Mapping[str, Tensor], side: str, facts: StateFacts, size: int, longest: int | None
) -> dict[str, Any]:
    """The section of the encoder or the decoder, with the sizes of its weights."""
    numbers = {int(match["number"]) for name in weights if (match := LAYER.match(name)) and match["side"] == side}
    inner = weights.get(f"{side}.layers.0.linear1.weight")
    if not numbers or inner is None:
        raise DataError(f"There is no weight {side}.layers.0.linear1.weight; set names.transformer.")
    return {
        "size": size,
        "layers": len(numbers),
        "heads": facts.heads,
        "feed_forward_size": len(inner),
        "activation": facts.activation,
        "norm": "pre" if facts.norm_first else "post",
        "norm_epsilon": facts.norm_epsilon,
        "final_norm": f"{side}.norm.weight" in weights,
        "positions": facts.positions,
        **({} if longest is None else {"max_positions": longest}),
        "projection_bias": f"{side}.layers.0.self_attn.q_proj.bias" in weights,
        "scaled_embeddings": facts.scaled_embeddings,
    }


def from_torch_transformer(
    transformer: nn.Transformer,
    source: nn.Embedding,
    target: nn.Embedding,
    output: nn.Linear,
    *,
    positions: nn.Module | Literal["sinusoidal"] | None = "sinusoidal",
    scaled_embeddings: bool = True,
    never: Sequence[int] = (),
    dropout: float = 0.0,
) -> EncoderDecoder:
    """A `torch.nn.Transformer`, and the embeddings and output layer around it, as our modules.

    The outputs are the log softmax of the output layer, equal up to rounding. Weights are copied; the model
    is float32 unless all weights are float64.

    Args:
        transformer: with ReLU or GELU, norms before or after the sublayers, with biases or without.
        source, target: the embeddings; the vectors of padding are copied unchanged.
        output: the output layer; tied to the target's embedding if `output.weight is target.weight`.
        positions: what is added to embeddings (`PositionedEmbedding`); a module is shared by both sides.
        scaled_embeddings: whether embeddings are multiplied by √D.
        never: ids that are never predicted, such as padding and the begin symbol.
        dropout: of embeddings and sublayers in later training.

    Raises:
        UnsupportedError: for another activation, or a side whose layers differ.
        DataError: for weights that do not fit, such as those of a user's own layers.

    >>> from torch import nn
    >>> transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model = from_torch_transformer(transformer, nn.Embedding(9, 8), nn.Embedding(7, 8), nn.Linear(8, 7))
    >>> model(torch.tensor([[4, 5]]), torch.tensor([[1, 4, 6]])).log_probabilities.shape
    torch.Size([1, 3, 7])
    """
    sides = [_torch_side(side, scaled_embeddings) for side in (transformer.encoder, transformer.decoder)]
    tied = output.weight is target.weight
    model = build_transformer(
        (source.num_embeddings, target.num_embeddings),
        transformer.d_model,
        sides,
        positions=positions,
        tied=tied,
        never=never,
        dropout=dropout,
    )
    theirs = dict(unstacked(transformer.state_dict()))
    theirs |= {"source.weight": source.weight, "target.weight": target.weight}
    theirs |= {"output.weight": output.weight} | ({} if output.bias is None else {"output.bias": output.bias})
    names = _names([side["num_layers"] for side in sides])
    return load_named(model, theirs, names, skip=CALLERS_POSITIONS, without_bias=("*",))


def _names(layers: Sequence[int]) -> dict[str, str]:
    """The names in the state dict, with the embeddings and the output layer as source, target and output."""
    tables = (TORCH_ENCODER, TORCH_DECODER)
    return transformer_names(layers, tables, source="source", target="target", output="output")


def _torch_side(side: Any, scaled_embeddings: bool) -> dict[str, Any]:
    """The options of an `nn.TransformerEncoder` or `nn.TransformerDecoder`, as of `build_transformer`."""
    kinds = {
        (_torch_activation(layer.activation), layer.norm1.eps, layer.norm_first, layer.self_attn.num_heads)
        for layer in side.layers
    }
    if len(kinds) > 1:
        raise UnsupportedError(
            f"The layers of {type(side).__name__} differ in activation, layer_norm_eps, norm_first or heads; here all "
            "layers of a side have the same."
        )
    ((activation, epsilon, norm_first, num_heads),) = kinds
    first = side.layers[0]
    options = TransformerOptions(
        activation=activation,  # type: ignore[arg-type]
        norm_epsilon=epsilon,
        final_norm=side.norm is not None,
        scaled_embeddings=scaled_embeddings,
        projection_bias=first.self_attn.in_proj_bias is not None,
    )
    return {
        "num_layers": len(side.layers),
        "num_heads": num_heads,
        "feed_forward_size": first.linear1.out_features,
        "norm": "pre" if norm_first else "post",
        "options": options,
    }


def _torch_activation(activation: Any) -> str:
    """The name of a function or a module; only the exact `nn.GELU` is supported."""
    name = getattr(activation, "__name__", type(activation).__name__).lower()
    approximate = getattr(activation, "approximate", "none")
    return activation_named(name if approximate == "none" else f"{name} with approximate={approximate}")


def unstacked(weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The weights, with in_proj_weight (3·D, D) and in_proj_bias (3·D) divided into those of three projections."""
    for name, tensor in weights.items():
        before, separator, kind = name.partition("in_proj_")
        if separator:
            for projection, part in zip(STACKED, tensor.chunk(3), strict=True):
                yield f"{before}{projection}.{kind}", part
        else:
            yield name, tensor
