"""What the tasks whose models are Transformers share."""

from __future__ import annotations

from regard.config.place import KeyPath
from regard.config.schema import TransformerLayersConfig
from regard.errors import ConfigError
from regard.models import TransformerOptions


def check_heads(config: TransformerLayersConfig, path: KeyPath, *, positions: str | None) -> None:
    """Refuses sizes that heads do not divide.

    Args:
        path: of the section, for messages.
        positions: the kind of positions.
    """
    if config.size % config.heads:
        raise ConfigError(f"size is {config.size}; it must be a multiple of heads ({config.heads})", (*path, "size"))
    if positions == "rotary" and config.size // config.heads % 2:
        raise ConfigError(
            f"size / heads is {config.size // config.heads}; positions: rotary rotates pairs, so it must be even",
            (*path, "size"),
        )
    if config.key_value_heads is not None and config.heads % config.key_value_heads:
        raise ConfigError(
            f"key_value_heads is {config.key_value_heads}; it must divide heads ({config.heads})",
            (*path, "key_value_heads"),
        )
    if config.query_key_norm and positions in ("relative", "transformer_xl"):
        raise ConfigError(
            f"query_key_norm has no effect with positions: {positions}, which compare queries with vectors of offsets, "
            "too; leave one of them out",
            (*path, "query_key_norm"),
        )


def transformer_options(config: TransformerLayersConfig) -> TransformerOptions:
    """The options of a Transformer's layers."""
    return TransformerOptions(
        activation=config.activation,
        activation_dropout=config.activation_dropout,
        attention_dropout=config.attention_dropout,
        norm_epsilon=config.norm_epsilon,
        final_norm=config.final_norm,
        scaled_embeddings=config.scaled_embeddings,
        query_key_norm=config.query_key_norm,
        projection_bias=config.projection_bias,
        initialisation=config.initialisation,
    )
