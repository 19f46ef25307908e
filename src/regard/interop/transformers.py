"""Transformers of other programs: names of weights, and layer norms before the sublayers as OpenNMT-py has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from torch import nn

from regard.errors import UnsupportedError
from regard.interop.named_weights import Names
from regard.layers import Norm, TokenEmbedding, TokenHead
from regard.models import EncoderDecoder, TransformerOptions, transformer_decoder, transformer_encoder

READ, INSIDE = ".read.", ".read.values."
"""Where values are projected; with dropout on the weights of attention the read is inside another."""


def layer_names(side: str, count: int, table: Names) -> dict[str, str]:
    """The other program's names of the modules of our layers.

    Args:
        table: the names of the modules of a layer, by ours.

    >>> layer_names("encoder", 1, {"feed_forward.inner": "linear1"})
    {'encoder.layers.0.feed_forward.inner': 'encoder.layers.0.linear1'}
    """
    found = {}
    for layer in range(count):
        for ours, theirs in table.items():
            name = f"{side}.layers.{layer}.{theirs}"
            found[f"{side}.layers.{layer}.{ours}"] = name
            if READ in ours:
                found[f"{side}.layers.{layer}.{ours.replace(READ, INSIDE)}"] = name
    return found


ATTENTION_NAMES: Names = {
    "score.query_projection": "q_proj",
    "score.key_projection": "k_proj",
    "read.value_projection": "v_proj",
    "read.output_projection": "out_proj",
}
"""The projections of multi-head attention."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
"""Activations by the names that others give them."""
CALLERS_POSITIONS = (".embedding.positions.",)
"""Weights that are the caller's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SideOptions:
    """What the encoder or the decoder of another program is built like; its layers are alike."""

    num_layers: int
    num_heads: int
    feed_forward_size: int
    norm: Norm
    options: TransformerOptions


def build_transformer(
    vocabularies: tuple[int, int],
    size: int,
    sides: Sequence[SideOptions],
    *,
    positions: nn.Module | Literal["sinusoidal"] | None,
    tied: bool,
    never: Sequence[int],
    dropout: float,
) -> EncoderDecoder:
    """The modules, with weights that are still random."""
    embeddings = [TokenEmbedding(count, size, padding=None, unknown=min(3, count - 1)) for count in vocabularies]
    head = TokenHead(size, vocabularies[1], tied=embeddings[1] if tied else None, never=never)
    encoder, decoder = ({field.name: getattr(side, field.name) for field in fields(side)} for side in sides)
    built = (
        transformer_encoder(embeddings[0], dropout=dropout, **encoder),
        transformer_decoder(embeddings[1], head, memory_size=size, dropout=dropout, **decoder),
    )
    for part in built:
        if positions != "sinusoidal":
            part.embedding._modules["positions"] = positions
    return EncoderDecoder(*built)


def activation_named(name: str) -> str:
    """Our name of an activation.

    Raises:
        UnsupportedError: for one that there is not.
    """
    if name not in ACTIVATIONS:
        raise UnsupportedError(f"The activation {name!r} is not known here; there are {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]


PROJECTIONS: Names = {
    "query_projection": "linear_query",
    "key_projection": "linear_keys",
    "value_projection": "linear_values",
    "output_projection": "final_linear",
    "offsets": "relative_positions_embeddings",
}
"""The modules of multi-head attention, wherever in it they are."""
ATTENTION = re.compile(rf"(?P<layer>\w+\.layers\.\d+)\.(?P<which>\w+)\.[\w.]*?(?P<projection>{'|'.join(PROJECTIONS)})$")
Positions = Literal["sinusoidal", "blocked_sinusoidal", "learned", "rotary", "linear_bias", "relative"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """The names that a program gives to the parts of a Transformer.

    Args:
        positions: learned positions of both sides; None if there are none.
        offsets_of_keys: the vectors of relative positions that are added to keys; those of values are
            `relative_positions_embeddings`.
        layers: of either side, what is before the number of a layer.
        parts: of a layer of either side, its modules but the projections.
    """

    source: str
    target: str
    positions: tuple[str, str] | None = None
    offsets_of_keys: str = PROJECTIONS["offsets"]
    layers: Names
    parts: Mapping[str, Names]

    def names(self, module: nn.Module) -> Names:
        """The names of our modules there."""
        names = {
            "encoder.embedding.embedding.table": self.source,
            "decoder.embedding.embedding.table": self.target,
            "decoder.head.projection": "generator",
            "encoder.norm": "encoder.layer_norm",
            "decoder.norm": "decoder.layer_norm",
        }
        if self.positions is not None:
            for side, theirs in zip(("encoder", "decoder"), self.positions, strict=True):
                names[f"{side}.embedding.positions.table"] = theirs
        for name, _ in module.named_modules(remove_duplicate=False):
            side, _, rest = name.partition(".layers.")
            number, _, part = rest.partition(".")
            parts = self.parts.get(side, {})
            if found := ATTENTION.match(name):
                attention, projection = parts[found["which"]], PROJECTIONS[found["projection"]]
                if name.endswith(".score.offsets"):
                    projection = self.offsets_of_keys
                names[name] = ".".join((self.layers[side], number, attention, projection))
            elif part in parts:
                names[name] = ".".join((self.layers[side], number, parts[part]))
        vectors = [name for name in names if name.endswith(".offsets")]
        return names | {f"{name}.vectors": f"{names[name]}.weight" for name in vectors}


@dataclass(frozen=True, kw_only=True, slots=True)
class PreNormTransformer:
    """What a model is built like.

    Args:
        layers: of the encoder and of the decoder.
        size, heads, key_value_heads, feed_forward_size, activation, norm_epsilon, projection_bias: as in a
            configuration.
        positions: as in a configuration; None: none.
        max_positions: how many there are, if they are learned.
        scaled_embeddings: whether embeddings are multiplied by √D.
        rotary_layout, rotary_base, max_distance, shared_offsets: as options of `multi_head`.
        tied_weights, shared_embeddings: whether the output layer, or the encoder, has the matrix of the target's
            embeddings.
        dropout, attention_dropout: in training.
    """

    layers: tuple[int, int]
    size: int
    heads: int
    key_value_heads: int | None
    feed_forward_size: int
    activation: str
    norm_epsilon: float
    projection_bias: bool
    positions: Positions | None
    max_positions: int | None
    scaled_embeddings: bool
    rotary_layout: str
    rotary_base: float
    max_distance: int
    shared_offsets: bool
    tied_weights: bool
    shared_embeddings: bool
    dropout: float
    attention_dropout: float

    def section(self) -> dict[str, Any]:
        """The section `model` of the configuration."""
        attention: dict[str, Any] = {"recipe": "multi_head"}
        if self.positions == "rotary":
            attention |= {"rotary_layout": self.rotary_layout, "rotary_base": self.rotary_base}
        if self.positions == "relative":
            attention |= {"max_distance": self.max_distance, "shared_offsets": self.shared_offsets}
        side = {
            "size": self.size,
            "heads": self.heads,
            "key_value_heads": self.key_value_heads,
            "feed_forward_size": self.feed_forward_size,
            "activation": self.activation,
            "norm": "pre",
            "norm_epsilon": self.norm_epsilon,
            "projection_bias": self.projection_bias,
            "positions": self.positions,
            "max_positions": self.max_positions,
            "scaled_embeddings": self.scaled_embeddings,
            "self_attention": attention,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
        }
        return {
            "architecture": "transformer",
            "encoder": {**side, "layers": self.layers[0]},
            "decoder": {
                **side,
                "layers": self.layers[1],
                "tied_weights": self.tied_weights,
                "specials": "forbidden",
            },
            "shared_embeddings": self.shared_embeddings,
        }
