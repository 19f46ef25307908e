"""The network that `model` describes: an encoder and a decoder, each recurrent or a Transformer."""

from __future__ import annotations

from functools import partial
from typing import Any

from regard.errors import ConfigError, UnsupportedError
from regard.layers import TokenEmbedding
from regard.models import (
    EncoderDecoder,
    PointerDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    TransformerDecoder,
    TransformerEncoder,
    transformer_encoder,
)
from regard.tasks.build import build_encoder
from regard.tasks.text_generation.decoders import (
    build_text_decoder,
    check_unread,
    imitating,
    positioned,
    self_attention,
    side_options,
    unpositioned,
)
from regard.tasks.text_to_text.config import ModelConfig

LEAST_WEIGHT = 1e-12
"""The weight with which a pointer copies what its attention gives none."""


def build_model(
    config: ModelConfig, *, num_source: int, num_target: int, max_length: int | None = None
) -> EncoderDecoder:
    """The model that a configuration describes, freshly initialised.

    Args:
        max_length: the most symbols of a text in training, from which the number of learned positions follows.
    """
    encoder = _encoder(config, num_source, max_length)
    decoder = _decoder(config, encoder, num_target, max_length)
    return EncoderDecoder(encoder, decoder)


def _encoder(config: ModelConfig, num_source: int, max_length: int | None) -> RecurrentEncoder | TransformerEncoder:
    side = config.encoder
    if side.architecture == "recurrent":
        return build_encoder(
            side,
            lambda: positioned(side, lambda rate: TokenEmbedding(num_source, side.embedding_size, dropout=rate)),
        )
    path = ("model", "encoder")
    options = side_options(side, path, max_length)
    check_unread(side, [side.self_attention.recipe], path)
    encoder = transformer_encoder(
        TokenEmbedding(num_source, side.size), attention=partial(self_attention, side, path, causal=False), **options
    )
    return imitating(encoder, side)


def _decoder(
    config: ModelConfig, encoder: RecurrentEncoder | TransformerEncoder, num_target: int, max_length: int | None
) -> RecurrentDecoder | PointerDecoder | TransformerDecoder:
    shared: Any = None
    if config.shared_embeddings:
        shared = unpositioned(encoder.embedding)
    decoder = build_text_decoder(
        config.decoder,
        config.attention,
        encoder.stack if isinstance(encoder, RecurrentEncoder) else encoder.output_size,
        num_target=num_target,
        max_length=max_length,
        shared=shared,
    )
    if isinstance(decoder, RecurrentDecoder) and decoder.attention is None:
        return decoder
    return _pointing(decoder, config, encoder.output_size)


def _pointing(
    decoder: RecurrentDecoder | TransformerDecoder, config: ModelConfig, memory_size: int
) -> RecurrentDecoder | PointerDecoder | TransformerDecoder:
    """The decoder, with a pointer around it if there is one."""
    pointer = config.pointer
    if pointer is None:
        return decoder
    try:
        return PointerDecoder(
            decoder,
            alignment=pointer.layer,
            alignment_head=pointer.head,
            memory_size=memory_size,
            least_weight=LEAST_WEIGHT,
        )
    except UnsupportedError as error:
        key = "layer" if pointer.layer is not None and pointer.layer in str(error) else "head"
        raise ConfigError(str(error), ("model", "pointer", key)) from None
