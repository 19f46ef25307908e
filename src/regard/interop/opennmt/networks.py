"""The networks of OpenNMT-py and eole: their sections of a configuration, and the names of their weights.

Recurrent models have global attention,

    s_t = cells([x_t; õ_{t-1}], s_{t-1}),  α_t = softmax(score(s_t, h)),  c_t = Σ α_tj h_j,  õ_t = f(W [c_t; s_t] + b)

with f = tanh and b = 0 for the scores sᵀh (dot) and (A s)ᵀh (general), and f(x) = x for vᵀ tanh(W s + b + U h) (mlp).
Without input feeding the cells read x_t only. The first state is that of the encoder, or a map of it. Transformers have
layer norms before their sublayers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.interop.named_weights import Names

CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn"}
"""Our cells by their names in OpenNMT."""
DIRECTIONS = ("", "_reverse")
KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


@dataclass(frozen=True, kw_only=True, slots=True)
class GlobalAttentionModel:
    """The options of a recurrent model.

    Args:
        bidirectional: whether the encoder reads in both directions, each with half of the size.
        layers: of the encoder and of the decoder.
        size: D, of the encoder's outputs and of the decoder's states.
        source_size, target_size: of the embeddings.
        attention: dot, general or mlp; None for none.
        bridge: whether a map turns the encoder's last states into the first state.
        tied_weights, shared_embeddings: whether the output layer, or the encoder, has the matrix of the target's
            embeddings.
        positions: added to embeddings times √size; None for none.
        source, target: the names of the embeddings' modules.
    """

    cell: str
    bidirectional: bool
    layers: int
    size: int
    source_size: int
    target_size: int
    input_feeding: bool
    attention: str | None
    alignment: str
    bridge: bool
    tied_weights: bool
    shared_embeddings: bool
    positions: str | None
    dropout: float
    source: str
    target: str

    def section(self) -> dict[str, Any]:
        """The section `model` of the configuration."""
        attention: dict[str, Any] | None = None
        if self.attention == "mlp":
            attention = {"recipe": "bahdanau", "size": self.size, "bias": True, "alignment": self.alignment}
        elif self.attention is not None:
            attention = {"recipe": "luong", "score": self.attention, "alignment": self.alignment}
        shared = {"cell": self.cell, "layers": self.layers, "dropout": self.dropout, "positions": self.positions}
        decoder: dict[str, Any] = {
            **shared,
            "size": self.size,
            "embedding_size": self.target_size,
            "bridge": "relu" if self.bridge else "copy",
            "tied_weights": self.tied_weights,
            "specials": "forbidden",
        }
        if attention is not None:
            decoder |= {"input_feeding": self.input_feeding, "layer_bias": self.attention == "mlp"}
        if self.attention == "mlp":
            decoder["readout"] = "linear"
        return {
            "architecture": "recurrent",
            "encoder": {
                **shared,
                "size": self.size // (1 + self.bidirectional),
                "bidirectional": self.bidirectional,
                "embedding_size": self.source_size,
            },
            "decoder": decoder,
            "attention": attention,
            "shared_embeddings": self.shared_embeddings,
        }

    def names(self) -> Names:
        """The names of their modules and weights, by ours."""
        inside = "embedding.embedding" if self.positions else "embedding"
        names = {
            f"encoder.{inside}.table": self.source,
            f"decoder.{inside}.table": self.target,
            "decoder.head.projection": "generator",
            "decoder.readout": "decoder.attn.linear_out",
            "decoder.attention.score.query_projection": "decoder.attn.linear_query",
            "decoder.attention.score.key_projection": "decoder.attn.linear_context",
            "decoder.attention.score.v": "decoder.attn.v.weight",
        }
        if self.attention == "general":
            names["decoder.attention.score.key_projection"] = "decoder.attn.linear_in"
        for layer in range(self.layers):
            for kind in KINDS:
                for direction in DIRECTIONS[: 1 + self.bidirectional]:
                    ours = f"encoder.stack.layers.{layer}.{kind}_l0{direction}"
                    names[ours] = f"encoder.rnn.{kind}_l{layer}{direction}"
                theirs = f"layers.{layer}.{kind}" if self.input_feeding else f"{kind}_l{layer}"
                names[f"decoder.stack.layers.{layer}.{kind}_l0"] = f"decoder.rnn.{theirs}"
        for number in range(1 + (self.cell == "lstm")):
            names[f"decoder.bridge.maps.{number}"] = f"encoder.bridge.{number}"
        return names

    def arranged(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights by their names, with rows and columns in our order."""
        arranged = dict(weights)
        out, into = "decoder.attn.linear_out.weight", "decoder.attn.linear_in.weight"
        if out in arranged and arranged[out].dim() == 2:  # [c; s] there, [s; c] here
            arranged[out] = torch.cat(arranged[out].chunk(2, 1)[::-1], 1)
        if into in arranged:  # it maps the query there, the keys here
            arranged[into] = arranged[into].t()
        for name in [name for name in arranged if name.startswith("encoder.bridge.") and self.bidirectional]:
            # one map is applied to the states of each direction
            weight = arranged[name]
            arranged[name] = torch.block_diag(weight, weight) if weight.dim() == 2 else torch.cat([weight, weight])
        return arranged


PROJECTIONS: Names = {
    "query_projection": "linear_query",
    "key_projection": "linear_keys",
    "value_projection": "linear_values",
    "output_projection": "final_linear",
    "offsets": "relative_positions_embeddings",
}
"""The modules of multi-head attention, at any depth."""
ATTENTION = re.compile(rf"(?P<layer>\w+\.layers\.\d+)\.(?P<which>\w+)\.[\w.]*?(?P<projection>{'|'.join(PROJECTIONS)})$")
Positions = Literal["sinusoidal", "blocked_sinusoidal", "learned", "rotary", "linear_bias", "relative"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """The names of the parts of a Transformer.

    Args:
        positions: the learned positions of both sides, or None.
        offsets_of_keys: the vectors of relative positions that are added to keys; those of values are
            `relative_positions_embeddings`.
        layers: by side, the prefix of the number of a layer.
        parts: by side, the modules of a layer except the projections.
    """

    source: str
    target: str
    positions: tuple[str, str] | None = None
    offsets_of_keys: str = PROJECTIONS["offsets"]
    layers: Names
    parts: Mapping[str, Names]

    def names(self, module: nn.Module) -> Names:
        """The names of their modules, by ours."""
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


def pre_norm_transformer(
    side: Mapping[str, Any],
    layers: tuple[int, int],
    attention: Mapping[str, Any],
    *,
    tied_weights: bool,
    shared_embeddings: bool,
) -> dict[str, Any]:
    """The section `model` of a Transformer.

    Args:
        side: the keys that both sides have.
        layers: of the encoder and of the decoder.
        attention: options of `multi_head` for rotary and relative positions.
        tied_weights, shared_embeddings: whether the output layer, or the encoder, has the matrix of the target's
            embeddings.
    """
    read = {"rotary": ("rotary_layout", "rotary_base"), "relative": ("max_distance", "shared_offsets")}
    recipe = {name: attention[name] for name in read.get(side["positions"], ())}
    side = {**side, "norm": "pre", "self_attention": {"recipe": "multi_head", **recipe}}
    return {
        "architecture": "transformer",
        "encoder": {**side, "layers": layers[0]},
        "decoder": {**side, "layers": layers[1], "tied_weights": tied_weights, "specials": "forbidden"},
        "shared_embeddings": shared_embeddings,
    }
