"""The network that `model` describes: an encoder and a decoder, each recurrent or a Transformer."""

from __future__ import annotations

from functools import partial

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
    as_variant,
    build_text_decoder,
    check_multi_head_options,
    input_layer,
    self_attention,
    side_options,
    token_embedding,
)
from regard.tasks.text_to_text.config import ModelConfig, PointerConfig

LEAST_WEIGHT = 1e-12
"""The weight with which a pointer copies a symbol that attention gives the weight 0."""


def build_model(
    config: ModelConfig, *, num_source: int, num_target: int, max_length: int | None = None
) -> EncoderDecoder:
    """The model that a configuration describes, freshly initialised.

    Args:
        max_length: the most symbols of a text in training, which determines the number of learned positions.
    """
    encoder = _encoder(config, num_source, max_length)
    decoder = build_text_decoder(
        config.decoder,
        config.attention,
        encoder.stack if isinstance(encoder, RecurrentEncoder) else encoder.output_size,
        num_target=num_target,
        max_length=max_length,
        shared=token_embedding(encoder.embedding) if config.shared_embeddings else None,
    )
    return EncoderDecoder(encoder, _with_pointer(decoder, config.pointer, encoder.output_size))


def _encoder(config: ModelConfig, num_source: int, max_length: int | None) -> RecurrentEncoder | TransformerEncoder:
    side = config.encoder
    if side.architecture == "recurrent":
        return build_encoder(
            side,
            lambda: input_layer(side, lambda rate: TokenEmbedding(num_source, side.embedding_size, dropout=rate)),
        )
    path = ("model", "encoder")
    options = side_options(side, path, max_length)
    check_multi_head_options(side, [side.self_attention.recipe], path)
    encoder = transformer_encoder(
        TokenEmbedding(num_source, side.size), attention=partial(self_attention, side, path, causal=False), **options
    )
    return as_variant(encoder, side)


def _with_pointer(
    decoder: RecurrentDecoder | TransformerDecoder, pointer: PointerConfig | None, memory_size: int
) -> RecurrentDecoder | PointerDecoder | TransformerDecoder:
    """The decoder, with a pointer if the configuration has one and there is attention to copy by."""
    if pointer is None or (isinstance(decoder, RecurrentDecoder) and decoder.attention is None):
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
