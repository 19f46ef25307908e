"""Transformers of other programs: names of weights, and networks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import nn

from regard.errors import UnsupportedError
from regard.interop.named_weights import Names
from regard.layers import TokenEmbedding, TokenHead
from regard.models import EncoderDecoder, transformer_decoder, transformer_encoder

READ, INSIDE = ".read.", ".read.values."
"""The read of a mechanism; dropout on the weights of attention wraps it in another."""


def transformer_names(
    layers: Sequence[int], tables: Sequence[Names], *, source: str, target: str, output: str
) -> dict[str, str]:
    """The other program's names of the modules of a Transformer, by ours.

    Args:
        layers: of the encoder and of the decoder.
        tables: for a layer of either, the names of its modules, by ours.
        source, target, output: the names of the embeddings and of the output layer.

    >>> names = transformer_names((1, 0), ({"feed_forward.inner": "linear1"}, {}), source="s", target="t", output="o")
    >>> names["encoder.layers.0.feed_forward.inner"]
    'encoder.layers.0.linear1'
    """
    names = {
        "encoder.embedding.embedding.table": source,
        "decoder.embedding.embedding.table": target,
        "decoder.head.projection": output,
    }
    for side, count, table in zip(("encoder", "decoder"), layers, tables, strict=True):
        for layer in range(count):
            for ours, theirs in table.items():
                name = f"{side}.layers.{layer}.{theirs}"
                names[f"{side}.layers.{layer}.{ours}"] = name
                if READ in ours:
                    names[f"{side}.layers.{layer}.{ours.replace(READ, INSIDE)}"] = name
    return names


ATTENTION_NAMES: Names = {
    "score.query_projection": "q_proj",
    "score.key_projection": "k_proj",
    "read.value_projection": "v_proj",
    "read.output_projection": "out_proj",
}
"""The projections of multi-head attention."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
"""Our activations, by their names in other programs."""
CALLERS_POSITIONS = (".embedding.positions.",)
"""Parts of the names of weights that belong to the caller."""


def build_transformer(
    vocabularies: tuple[int, int],
    size: int,
    sides: Sequence[Mapping[str, Any]],
    *,
    positions: nn.Module | Literal["sinusoidal"] | None,
    tied: bool,
    never: Sequence[int],
    dropout: float,
) -> EncoderDecoder:
    """An encoder and a decoder with random weights.

    Args:
        vocabularies: N of source and target.
        size: D.
        sides: the arguments of `transformer_encoder` and of `transformer_decoder` for their layers.
        positions, tied, never, dropout: as in `from_torch_transformer`.
    """
    embeddings = [TokenEmbedding(count, size, padding=None, unknown=min(3, count - 1)) for count in vocabularies]
    head = TokenHead(size, vocabularies[1], tied=embeddings[1] if tied else None, never=never)
    built = (
        transformer_encoder(embeddings[0], dropout=dropout, **sides[0]),
        transformer_decoder(embeddings[1], head, memory_size=size, dropout=dropout, **sides[1]),
    )
    for part in built:
        if positions != "sinusoidal":
            part.embedding._modules["positions"] = positions
    return EncoderDecoder(*built)


def activation_named(name: str) -> str:
    """Our name of an activation.

    Raises:
        UnsupportedError: for an unknown one.
    """
    if name not in ACTIVATIONS:
        raise UnsupportedError(f"The activation {name!r} is unknown; there are {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]
