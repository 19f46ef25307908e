"""Transformers of other programs: names of weights, and layer norms before the sublayers as OpenNMT-py has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from regard.models.named_weights import Names

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
