"""Builds the network of a configuration: a convolutional encoder and a decoder of texts."""

from __future__ import annotations

from typing import Any

from regard.data.text import BOS, PAD, UNKNOWN
from regard.errors import ConfigError, RegardError
from regard.models import EncoderDecoder, RecurrentDecoder, captioner
from regard.models.vision import AbstractBackbone, ImageEncoder, backbone_named
from regard.tasks.image_to_text.config import (
    DenseConfig,
    EfficientNetConfig,
    ModelConfig,
    ModelEncoder,
    RecurrentCaptionerConfig,
)
from regard.tasks.text_generation.decoders import NEVER, build_text_decoder

KEY_PATH = ("model", "encoder")
FIXED = (
    *("order", "query", "input_feeding", "first_context", "bridge", "bridge_layers", "readout", "layer_size"),
    *("layer_bias", "tied_weights", "residual", "specials", "positions"),
)
"""Keys of the decoder whose values `like` determines."""
ATTENTION_OPTIONS, CAPTIONER_RECIPES = ("size", "hard", "mix", "gate"), ("bahdanau", "show_attend_tell", "luong")
"""Options of attention, and recipes, that can be combined with `like`."""
BACKBONE_OPTIONS = (
    *("widths", "depth", "depths", "stem_kernel", "pool"),
    *("growth", "num_blocks", "norm", "stride", "weights", "pretrained"),
)
"""Keys of encoders that are options of backbones."""
LARGEST_GRID = (256, 512)
"""Rows and columns of cells for which positions are learned."""


def build_model(
    config: ModelConfig, *, num_channels: int, num_target: int, max_length: int | None = None, published: bool = True
) -> EncoderDecoder:
    """The model that a configuration describes, freshly initialised.

    Args:
        max_length: the most symbols of a text in training, which determines the number of learned positions.
        published: whether published weights are read where the configuration names some.
    """
    encoder = build_image_encoder(config.encoder, num_channels, published=published)
    if isinstance(config, RecurrentCaptionerConfig) and config.decoder.like is not None:
        return EncoderDecoder(encoder, _captioner(config, encoder.output_size, num_target))
    decoder = build_text_decoder(
        config.decoder,
        config.attention,
        encoder.output_size,
        num_target=num_target,
        max_length=max_length,
        dimensions=2,
    )
    return EncoderDecoder(encoder, decoder)


def _captioner(config: RecurrentCaptionerConfig, memory_size: int, num_target: int) -> RecurrentDecoder:
    """A captioner in the form of another program."""
    side, attention = config.decoder, config.attention
    for name in FIXED:
        if getattr(side, name) != type(side).model_fields[name].default:
            raise ConfigError(f"{name} follows from like: {side.like}; leave it out", ("model", "decoder", name))
    options = {} if attention is None else dict(attention.options)
    wrong = [name for name in options if name not in ATTENTION_OPTIONS]
    if attention is None or attention.recipe not in CAPTIONER_RECIPES:
        wrong = ["null" if attention is None else attention.recipe]
    if wrong:
        free = ", ".join(ATTENTION_OPTIONS)
        raise ConfigError(
            f"{wrong[0]}: like: {side.like} determines the attention, except for the options {free}",
            ("model", "attention"),
        )
    if "size" in options:
        options["attention_size"] = options.pop("size")
    try:
        return captioner(
            num_target,
            memory_size=memory_size,
            embedding_size=side.embedding_size,
            size=side.size,
            cell=side.cell,
            num_layers=side.layers,
            dropout=side.dropout,
            padding=PAD,
            bos=BOS,
            unknown=UNKNOWN,
            never=NEVER,
            like=side.like,
            **options,
        )
    except (RegardError, TypeError) as error:
        raise ConfigError(str(error), ("model", "decoder", "like")) from None


def build_image_encoder(config: ModelEncoder, num_channels: int, *, published: bool = True) -> ImageEncoder:
    """The encoder that a section describes."""
    options: dict[str, Any] = {
        "positions": config.positions,
        "size": config.size,
        "dropout": config.dropout,
        "precision": config.backbone_precision,
        "freeze": config.freeze,
    }
    try:
        backbone = _backbone(config, num_channels, published=published)
        return ImageEncoder(backbone, max_grid=LARGEST_GRID, **options)
    except ConfigError as error:
        raise ConfigError(str(error), error.path or KEY_PATH) from None
    except RegardError as error:
        raise ConfigError(str(error), KEY_PATH) from None


def _backbone(config: ModelEncoder, num_channels: int, *, published: bool) -> AbstractBackbone:
    """The backbone that a section describes, with published weights only if `published`."""
    options = {name: getattr(config, name) for name in BACKBONE_OPTIONS if name in type(config).model_fields}
    if isinstance(config, EfficientNetConfig) and options.pop("pretrained"):
        options["weights"] = "package"
    if not published:
        options.pop("weights", None)
    if isinstance(config, DenseConfig):
        options["dropout"] = config.layer_dropout
    return backbone_named(config.backbone, channels=num_channels, **options)
