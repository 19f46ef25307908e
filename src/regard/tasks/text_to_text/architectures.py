"""The network of each architecture that `model.architecture` may name."""

from __future__ import annotations

from collections.abc import Callable

from regard.config.tasks.text_to_text import ModelConfig, RecurrentConfig
from regard.data import BOS, PAD
from regard.layers import TokenEmbedding, TokenHead
from regard.models import EncoderDecoder, PointerDecoder
from regard.tasks.build import build_decoder, build_encoder


def recurrent(config: RecurrentConfig, *, num_source: int, num_target: int) -> EncoderDecoder:
    """A recurrent encoder, and a recurrent decoder with attention or a fixed context."""
    source, target = config.encoder, config.decoder

    def embedding() -> TokenEmbedding:
        return TokenEmbedding(num_target, target.embedding_size, dropout=target.dropout)

    def head(embedding: TokenEmbedding) -> TokenHead:
        return TokenHead(target.size, num_target, tied=embedding if target.tied_weights else None, never=(PAD, BOS))

    encoder = build_encoder(source, lambda: TokenEmbedding(num_source, source.embedding_size, dropout=source.dropout))
    decoder = build_decoder(target, config.attention, encoder.stack, embedding=embedding, head=head)
    if config.pointer is None or decoder.attention is None:
        return EncoderDecoder(encoder, decoder)
    return EncoderDecoder(encoder, PointerDecoder(decoder, head=config.pointer.head))


BUILDERS: dict[str, Callable[..., EncoderDecoder]] = {"recurrent": recurrent}
"""The function that builds each architecture, from its section and the sizes of the vocabularies."""


def build_model(config: ModelConfig, *, num_source: int, num_target: int) -> EncoderDecoder:
    """The model that a configuration describes, freshly initialised.

    Args:
        config: the section of an architecture.
        num_source, num_target: vocabulary sizes.

    Raises:
        ConfigError: for options that contradict each other; its path names the key.
    """
    return BUILDERS[config.architecture](config, num_source=num_source, num_target=num_target)
