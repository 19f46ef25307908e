"""Builds encoders, decoders, mechanisms and the options of Transformers from the sections that tasks share.

Weights are drawn from torch's global generator, in an order that never changes: a saved seed means the same model.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError
from torch import nn

from regard.attention import RECIPES, AbstractWindow, Mechanism
from regard.config.place import KeyPath
from regard.config.schema import AttentionConfig, DecoderConfig, EncoderConfig, TransformerLayersConfig
from regard.config.spelling import did_you_mean, nearest, suggestion
from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.layers import RecurrentStack
from regard.models import Bridge, DeepReadout, FixedContext, RecurrentDecoder, RecurrentEncoder, TransformerOptions

SIZE_OPTIONS = ("query_size", "memory_size", "key_size", "input_size")
"""Parameters of recipes that encoder and decoder determine; the encoder's states are both keys and values."""


def build_stack(config: EncoderConfig | DecoderConfig, input_size: int) -> RecurrentStack:
    """The recurrent layers of an encoder or a decoder, over inputs of F features."""
    return RecurrentStack(
        input_size,
        config.size,
        config.layers,
        cell=config.cell,
        bidirectional=isinstance(config, EncoderConfig) and config.bidirectional,
        dropout=config.dropout,
        residual=config.residual,
    )


def build_encoder(config: EncoderConfig, embedding: Callable[[], nn.Module]) -> RecurrentEncoder:
    """A recurrent encoder.

    Args:
        embedding: makes the input layer, of `config.embedding_size` features. It is called after the stack is built,
            which fixes the order in which weights are drawn.
    """
    stack = build_stack(config, config.embedding_size)
    return RecurrentEncoder(embedding(), stack)


def build_decoder(
    config: DecoderConfig,
    attention: AttentionConfig | None,
    encoder: RecurrentStack | int,
    *,
    embedding: Callable[[], Any],
    head: Callable[[int, Any], nn.Module],
    continuous: bool = False,
) -> RecurrentDecoder:
    """A recurrent decoder with attention over the states of an encoder, or with a fixed context vector.

    Args:
        attention: the recipe and its options; None for a fixed context.
        encoder: the stack of the encoder, whose last states the bridge maps to the first state; for an encoder without
            last states the width of the memory, whose mean the bridge maps to the first state.
        embedding: makes the input layer, of `config.embedding_size` features.
        head: makes the output layer from its number of input features and the input layer, whose weights it may share.
    """
    check_decoder(config, attention)
    mechanism = context = None
    memory_size = encoder if isinstance(encoder, int) else encoder.output_size
    if attention is not None:
        mechanism = build_mechanism(
            attention,
            query_size=RecurrentDecoder.query_size(config.size, config.layers, cell=config.cell, query=config.query),
            memory_size=memory_size,
            input_size=config.embedding_size,
        )
    else:
        if isinstance(encoder, int) and config.context == "last":
            raise ConfigError(
                "context: last is the last state of a recurrent encoder, and this encoder has none; set mean, maximum "
                "or learned",
                ("model", "decoder", "context"),
            )
        context = FixedContext(config.context, memory_size)
    options: dict[str, Any] = {
        "attention": mechanism,
        "context": context,
        "order": config.order,
        "input_feeding": config.input_feeding or False,
        "every_step": config.context_use == "every_step",
    }
    sizes = {"state": config.size, "deep": config.embedding_size}
    if mechanism is not None:
        sizes["context"] = mechanism.context_size
    read = sizes.get(config.readout, config.layer_size or config.size)
    # the vector that is fed back has the width of the readout or of the attention layer
    fed = read if config.input_feeding is True else config.layer_size or config.size
    cells = build_stack(config, RecurrentDecoder.input_size(config.embedding_size, fed, **options))
    context_size = memory_size if context is not None and config.context != "last" else None
    if config.bridge_layers != "matched" and (config.bridge == "zero" or context_size or isinstance(encoder, int)):
        raise ConfigError(
            "bridge_layers has no effect where the first state does not follow from the last states of the encoder's "
            "layers; leave it out",
            ("model", "decoder", "bridge_layers"),
        )
    try:
        bridge = Bridge(encoder, cells, config.bridge, layers=config.bridge_layers, context_size=context_size)
    except RegardError as error:
        raise ConfigError(str(error), ("model", "decoder", "bridge")) from None
    embedded = embedding()
    readout: Any = config.readout
    if readout == "deep" and mechanism is not None:
        readout = DeepReadout(config.size, embedding_size=config.embedding_size, context_size=mechanism.context_size)
    try:
        return RecurrentDecoder(
            embedded,
            cells,
            head(read, embedded),
            bridge,
            query=config.query,
            dropout=config.dropout,
            continuous=continuous,
            readout=readout,
            layer_size=config.layer_size,
            layer_bias=config.layer_bias,
            first_context=config.first_context,
            **options,
        )
    except (ShapeError, UnsupportedError) as error:
        keys = ("readout", "input_feeding", "layer_size", "layer_bias", "first_context")
        named = next((key for key in keys if str(error).startswith(key)), None)
        changed = next((key for key in keys if getattr(config, key) != type(config).model_fields[key].default), None)
        if (key := named or changed) is None:
            raise
        raise ConfigError(str(error), ("model", "decoder", key)) from None


def build_mechanism(
    config: AttentionConfig,
    *,
    query_size: int,
    memory_size: int,
    input_size: int,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    path: KeyPath = ("model", "attention"),
) -> Mechanism:
    """The mechanism that a recipe's name and options describe.

    Sizes and defaults for which the recipe has no parameter are left out.

    Args:
        query_size, memory_size, input_size: of the decoder's state, the encoder's states and the decoder's input.
        defaults: values of further parameters, parts among them; options of the configuration replace them.
    """
    recipe = RECIPES.get(config.recipe)
    if recipe is None:
        raise ConfigError(
            f"there is no recipe {config.recipe!r}; {suggestion(config.recipe, RECIPES)}", (*path, "recipe")
        )
    signature, hints = inspect.signature(recipe), get_type_hints(recipe)
    if "query_size" not in signature.parameters:
        usable = [name for name, other in RECIPES.items() if "query_size" in inspect.signature(other).parameters]
        raise ConfigError(
            f"{config.recipe} takes no query, so a decoder cannot use it; it can use {', '.join(usable)}",
            (*path, "recipe"),
        )
    accepted = [name for name in signature.parameters if name not in SIZE_OPTIONS and not _is_part(hints[name])]
    options = {name: value for name, value in defaults.items() if name in signature.parameters}
    for name, value in config.options.items():
        if name not in accepted:
            raise ConfigError(f"{config.recipe} has no option {name!r}; {suggestion(name, accepted)}", (*path, name))
        options[name] = _option(config.recipe, value, hints[name], (*path, name))
    sizes = {"query_size": query_size, "memory_size": memory_size, "input_size": input_size}
    try:
        mechanism = recipe(**{name: size for name, size in sizes.items() if name in signature.parameters}, **options)
    except ValueError as error:
        raise ConfigError(f"{config.recipe}: {error}", path) from None
    assert isinstance(mechanism, Mechanism)
    return mechanism


def check_decoder(config: DecoderConfig, attention: AttentionConfig | None) -> None:
    """Refuses settings that would be ignored."""
    place = ("model", "decoder")
    if attention is None:
        for setting, is_set in (
            ("order", config.order == "attend_then_recur"),
            ("query", config.query != "output"),
            ("readout: deep", config.readout == "deep"),
            ("input_feeding", config.input_feeding),
        ):
            if is_set:
                key = setting.partition(":")[0]
                raise ConfigError(f"{setting} has no effect without attention; leave it out", (*place, key))
        return
    if config.order == "attend_then_recur" and config.input_feeding is False:
        raise ConfigError(
            "order: attend_then_recur always feeds the context into the cell; for a decoder without feedback use "
            "order: recur_then_attend",
            (*place, "input_feeding"),
        )
    for key, default in (("context", "last"), ("context_use", "first_state")):
        if getattr(config, key) != default:
            raise ConfigError(
                f"{key} has no effect with attention; leave it out, or set model.attention to null",
                (*place, key),
            )


def _option(recipe: str, value: Any, hint: Any, path: KeyPath) -> Any:
    """The value of an option, checked against the recipe's type without conversion."""
    name = path[-1]
    try:
        checked = TypeAdapter(hint).validate_python(value, strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        similar = nearest(str(value), _words(hint))
        question = f"; {did_you_mean(similar)}" if similar else ""
        raise ConfigError(f"{value!r} is not a value of this option of {recipe}: {reason}{question}", path) from None
    if isinstance(checked, float) and not math.isfinite(checked):
        raise ConfigError(f"{recipe}'s {name}={checked} must be finite", path)
    least = 0 if name == "reach" else 1
    if type(checked) is int and checked < least:
        raise ConfigError(f"{recipe}'s {name}={checked} must be {least} or more", path)
    return checked


def _words(hint: Any) -> list[str]:
    """The words that a type allows."""
    inner = [word for argument in get_args(hint) for word in _words(argument)]
    return [*inner, hint] if isinstance(hint, str) else inner


def _is_part(hint: Any) -> bool:
    return AbstractWindow in getattr(hint, "__args__", ())


def check_heads(config: TransformerLayersConfig, path: KeyPath, *, positions: str | None) -> None:
    """Refuses sizes that heads do not divide."""
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
