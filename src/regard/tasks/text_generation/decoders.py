"""Builds decoders of texts, recurrent or Transformers, and the parts that they share with encoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, get_args

from torch import nn

from regard.attention import CausalWindow, Projected
from regard.attention.interface import AbstractAttention
from regard.attention.recipes.multi_head import Positions as RelativePositions
from regard.config.place import KeyPath
from regard.config.schema import AttentionConfig
from regard.config.texts import RecurrentDecoderConfig, RecurrentKind, TransformerDecoderConfig, TransformerSideConfig
from regard.data.text import BOS, PAD
from regard.errors import ConfigError
from regard.interop.variants import TRANSFORMERS
from regard.layers import PositionedEmbedding, RecurrentStack, TokenEmbedding, TokenHead
from regard.models import RecurrentDecoder, RefinementOptions, TransformerDecoder, transformer_decoder
from regard.models.transformer_options import divide_positions
from regard.tasks.build import build_decoder, build_mechanism, check_heads, transformer_options

ModuleT = TypeVar("ModuleT", bound=nn.Module)
MULTI_HEAD = "multi_head"
"""The recipe whose options are keys of a Transformer's sections."""
NEVER = (PAD, BOS)
"""Ids that are never predicted."""


def build_text_decoder(
    side: RecurrentDecoderConfig | TransformerDecoderConfig,
    attention: AttentionConfig | None,
    encoder: RecurrentStack | int,
    *,
    num_target: int,
    max_length: int | None = None,
    shared: TokenEmbedding | None = None,
    dimensions: Literal[1, 2] = 1,
) -> RecurrentDecoder | TransformerDecoder:
    """A decoder of texts, freshly initialised.

    Args:
        attention: to the input; None: a fixed context vector.
        encoder: as in `build_decoder`; a Transformer decoder reads only the width of the memory.
        max_length: the most symbols of a text in training, which determines the number of learned positions.
        shared: the embedding of the encoder, whose matrix the decoder shares.
        dimensions: of the positions of the memory: 1 of a text, 2 of an image.
    """

    def head(size: int, embedded: TokenEmbedding | PositionedEmbedding) -> TokenHead:
        tied = token_embedding(embedded) if side.tied_weights else None
        return TokenHead(size, num_target, tied=tied, never=NEVER, never_counts=side.specials == "forbidden")

    if side.architecture == "recurrent":
        return build_decoder(
            side,
            attention,
            encoder,
            embedding=lambda: input_layer(side, lambda rate: embedding(num_target, side.embedding_size, rate, shared)),
            head=head,
        )
    if attention is None:
        raise ConfigError(
            "a Transformer decoder attends to the input in every layer; leave attention out for the default",
            ("model", "attention"),
        )
    path = ("model", "decoder")
    options = side_options(side, path, max_length)
    check_multi_head_options(side, [side.self_attention.recipe, attention.recipe], path)
    memory_size = encoder if isinstance(encoder, int) else encoder.output_size
    embedded = embedding(num_target, side.size, 0.0, shared)
    decoder = transformer_decoder(
        embedded,
        head(side.size, embedded),
        memory_size=memory_size,
        attention=partial(self_attention, side, path, causal=True),
        cross_attention=partial(_attention, attention, side, memory_size, ("model", "attention")),
        refinement=_refinement(side, attention, (*path, "refinement"), dimensions),
        **options,
    )
    return as_variant(decoder, side)


def _refinement(
    side: TransformerDecoderConfig, attention: AttentionConfig, path: KeyPath, dimensions: Literal[1, 2]
) -> RefinementOptions | None:
    """The correction of a Transformer decoder's attention by coverage, if it has one."""
    refinement = side.refinement
    if refinement is None:
        return None
    if attention.recipe != MULTI_HEAD:
        raise ConfigError(
            f"refinement corrects {MULTI_HEAD}, and the recipe of model.attention is {attention.recipe}; leave out one "
            "of them",
            path,
        )
    if side.layers < 2:
        raise ConfigError("refinement corrects every layer but the first; set at least 2 layers, or leave it out", path)
    return RefinementOptions(**dict(refinement), dimensions=dimensions)


def embedding(num_tokens: int, size: int, dropout: float, shared: TokenEmbedding | None) -> TokenEmbedding:
    """The embedding of a decoder, with the matrix of the encoder's if they are shared."""
    embedding = TokenEmbedding(num_tokens, size, dropout=dropout)
    if shared is None:
        return embedding
    if shared.table.weight.shape != embedding.table.weight.shape:
        ours, theirs, unit = shared.table.num_embeddings, num_tokens, "symbols"
        if shared.size != size:  # in a draft the numbers of symbols are arbitrary
            ours, theirs, unit = shared.size, size, "features"
        raise ConfigError(
            f"shared_embeddings: the embedding of the encoder has {ours:,} {unit}, that of the decoder {theirs:,}; "
            "they must be equal",
            ("model", "shared_embeddings"),
        )
    embedding.table.weight = shared.table.weight
    return embedding


def input_layer(side: RecurrentKind, make: Callable[[float], TokenEmbedding]) -> TokenEmbedding | PositionedEmbedding:
    """The input layer of a recurrent network: an embedding, and positions if the section has them.

    Args:
        side: the section of the encoder or the decoder, which has a `dropout`.
        make: makes the embedding with a rate of dropout.
    """
    rate: float = side.dropout  # type: ignore[attr-defined]
    if side.positions is None:
        return make(rate)
    table = make(0.0)
    return PositionedEmbedding(table, positions=divide_positions(side.positions, table.size, None)[0], dropout=rate)


def token_embedding(embedding: Any) -> TokenEmbedding:
    """The embedding of tokens in an input layer with or without positions."""
    table: TokenEmbedding = embedding.embedding if isinstance(embedding, PositionedEmbedding) else embedding
    return table


def as_variant(part: ModuleT, side: TransformerSideConfig) -> ModuleT:
    """The encoder or decoder, changed into the variant that `like` names."""
    if side.like is not None:
        TRANSFORMERS[side.like](part)
    return part


def side_options(side: TransformerSideConfig, path: KeyPath, max_length: int | None) -> dict[str, Any]:
    """The options of a Transformer's encoder or decoder."""
    check_heads(side, path, positions=side.positions)
    if side.max_positions is not None and side.positions != "learned":
        raise ConfigError(
            f"max_positions has no effect with positions: {side.positions}; leave it out", (*path, "max_positions")
        )
    longest = (max_length or 0) + 1
    if side.max_positions is not None and side.max_positions < longest:
        raise ConfigError(
            f"max_positions is {side.max_positions}, but texts may have {longest - 1} symbols and an end symbol: set "
            f"at least {longest}, or lower data.max_length",
            (*path, "max_positions"),
        )
    return {
        "num_layers": side.layers,
        "feed_forward_size": side.feed_forward_size or 4 * side.size,
        "positions": side.positions,
        "max_length": (side.max_positions or longest) if side.positions == "learned" else None,
        "norm": side.norm,
        "dropout": side.dropout,
        "options": transformer_options(side),
    }


def self_attention(side: TransformerSideConfig, path: KeyPath, *, causal: bool) -> AbstractAttention:
    """The self-attention of a layer."""
    config, place = side.self_attention, (*path, "self_attention")
    positions = side.positions if side.positions in get_args(RelativePositions) else None
    further: dict[str, Any] = {"window": CausalWindow()} if causal else {}
    if config.recipe == MULTI_HEAD:
        further = {"causal": causal, "positions": positions}
    elif positions is not None:
        raise ConfigError(
            f"positions: {positions} is an option of {MULTI_HEAD}, which is not the recipe of self_attention; set "
            "sinusoidal, half_sinusoidal, blocked_sinusoidal, scaled_sinusoidal or learned",
            (*path, "positions"),
        )
    attention = _attention(config, side, side.size, place, **further)
    if attention.is_recurrent:
        raise ConfigError(
            f"{config.recipe} is recurrent: a step depends on the steps before it, and the memory of self-attention "
            "grows with every step; use it as model.attention",
            (*place, "recipe"),
        )
    return attention


def _attention(
    config: AttentionConfig, side: TransformerSideConfig, memory_size: int, path: KeyPath, **further: Any
) -> AbstractAttention:
    """The attention of a layer; the context of recipes other than multi-head attention is projected."""
    is_multi_head = config.recipe == MULTI_HEAD
    further["num_heads"] = side.heads
    if is_multi_head:
        further |= {
            "size": side.size,
            "num_key_value_heads": side.key_value_heads,
            "bias": side.projection_bias,
            "normalised": side.query_key_norm,
            "dropout": side.attention_dropout,
        }
    mechanism = build_mechanism(
        config, query_size=side.size, memory_size=memory_size, input_size=side.size, defaults=further, path=path
    )
    return mechanism if is_multi_head else Projected(mechanism, side.size)


def check_multi_head_options(side: TransformerSideConfig, recipes: Sequence[str], path: KeyPath) -> None:
    """Refuses options of multi-head attention where no attention reads them."""
    if MULTI_HEAD in recipes:
        return
    for key in ("key_value_heads", "query_key_norm", "projection_bias", "attention_dropout"):
        if getattr(side, key) != type(side).model_fields[key].default:
            raise ConfigError(
                f"{key} is an option of {MULTI_HEAD}, which is not the recipe of any attention here ("
                f"{', '.join(dict.fromkeys(recipes))}); leave it out",
                (*path, key),
            )
