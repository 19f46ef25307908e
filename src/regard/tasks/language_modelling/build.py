"""Builds the language model that a configuration describes."""

from __future__ import annotations

from typing import Any

from regard.data.text import BOS, EOS, PAD
from regard.errors import ConfigError, counted
from regard.layers import TokenEmbedding, TokenHead
from regard.models import AbstractLanguageModel, recurrent_language_model, transformer_language_model
from regard.tasks.build import check_heads, transformer_options
from regard.tasks.language_modelling.config import (
    LanguageModellingConfig,
    RecurrentLanguageConfig,
    TransformerLanguageConfig,
)

NEVER = (PAD, BOS, EOS)
"""Ids that are never predicted: a running text has no end."""
PARTS = {"key_value": 2, "key_value_predict": 3}
"""The number of parts of an output, by `past`."""


def build_model(config: LanguageModellingConfig, *, num_tokens: int) -> AbstractLanguageModel:
    """The language model of a configuration, freshly initialised.

    Args:
        config: the whole configuration; the default reach of a Transformer is the window of the training.
    """
    if isinstance(config.model, RecurrentLanguageConfig):
        return _recurrent(config.model, num_tokens)
    return _transformer(config.model, num_tokens, config.training.window)


def parts_of(config: RecurrentLanguageConfig) -> int:
    """The number that divides the size of a recurrent model: of its parts, or of the heads in all of them."""
    parts = config.order - 1 if config.past == "ngram" else PARTS.get(config.past, 1)
    return parts * (config.heads if has_attention(config) else 1)


def has_attention(config: RecurrentLanguageConfig | TransformerLanguageConfig) -> bool:
    """Whether the model has weights over past tokens."""
    return isinstance(config, TransformerLanguageConfig) or config.past not in ("state", "ngram")


def _recurrent(config: RecurrentLanguageConfig, num_tokens: int) -> AbstractLanguageModel:
    unused = [] if has_attention(config) else ["reach", "heads"]
    unused += [] if config.past == "ngram" else ["order"]
    for key in unused:
        if getattr(config, key) != RecurrentLanguageConfig.model_fields[key].default:
            raise ConfigError(f"{key} has no effect with past: {config.past}; leave it out", ("model", key))
    if config.size % (parts := parts_of(config)):
        raise ConfigError(
            f"size is {config.size}; with past: {config.past} and "
            f"{counted(config.heads, 'head|heads')} it must be a multiple of {parts}",
            ("model", "size"),
        )
    return recurrent_language_model(
        num_tokens,
        size=config.size,
        past=config.past,
        embedding_size=config.embedding_size,
        num_layers=config.layers,
        cell=config.cell,
        reach=config.reach,
        num_heads=config.heads,
        order=config.order,
        dropout=config.dropout,
        tied_weights=config.tied_weights,
        never=NEVER,
    )


def _transformer(config: TransformerLanguageConfig, num_tokens: int, window: int) -> AbstractLanguageModel:
    check_heads(config, ("model",), positions=config.positions)
    embedding = TokenEmbedding(num_tokens, config.size, padding=None)
    options: dict[str, Any] = {"tied": embedding} if config.tied_weights else {}
    return transformer_language_model(
        embedding,
        TokenHead(config.size, num_tokens, never=NEVER, **options),
        num_layers=config.layers,
        num_heads=config.heads,
        num_key_value_heads=config.key_value_heads,
        feed_forward_size=config.feed_forward_size or 4 * config.size,
        positions=config.positions,
        reach=config.reach or window,
        norm=config.norm,
        dropout=config.dropout,
        options=transformer_options(config),
    )
