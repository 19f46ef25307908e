"""Builds the model that a configuration describes."""

from __future__ import annotations

import inspect
import math
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from regard.attention import RECIPES, AbstractWindow, Mechanism
from regard.config.schema import AttentionConfig
from regard.config.spelling import did_you_mean, nearest, suggestion
from regard.config.tasks.text_to_text import ModelConfig
from regard.data import BOS, PAD
from regard.errors import ConfigError, RegardError
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, EncoderDecoder, FixedContext, RecurrentDecoder, RecurrentEncoder

SIZE_OPTIONS = ("query_size", "memory_size", "key_size", "input_size")
"""Parameters of recipes that follow from the encoder and the decoder; the encoder's states are both keys and values."""


def build_model(config: ModelConfig, *, num_source: int, num_target: int) -> EncoderDecoder:
    """The model that a configuration describes, freshly initialised.

    Args:
        config: encoder, decoder and attention.
        num_source, num_target: vocabulary sizes.

    Raises:
        ConfigError: for options that contradict each other; its path names the key.
    """
    encoder, decoder = config.encoder, config.decoder
    stack = RecurrentStack(
        encoder.embedding_size,
        encoder.size,
        encoder.layers,
        cell=encoder.cell,
        bidirectional=encoder.bidirectional,
        dropout=encoder.dropout,
        residual=encoder.residual,
    )
    encoding = RecurrentEncoder(TokenEmbedding(num_source, encoder.embedding_size, dropout=encoder.dropout), stack)
    _check(config)
    attention = context = None
    if config.attention is not None:
        attention = build_mechanism(
            config.attention,
            query_size=RecurrentDecoder.query_size(
                decoder.size, decoder.layers, cell=decoder.cell, query=decoder.query
            ),
            memory_size=stack.output_size,
            input_size=decoder.embedding_size,
        )
    else:
        context = FixedContext(decoder.context, stack.output_size)
    options: dict[str, Any] = {
        "attention": attention,
        "context": context,
        "order": decoder.order,
        "input_feeding": bool(decoder.input_feeding),
        "every_step": decoder.context_use == "every_step",
    }
    width = RecurrentDecoder.input_size(decoder.embedding_size, decoder.size, **options)
    cells = RecurrentStack(
        width, decoder.size, decoder.layers, cell=decoder.cell, dropout=decoder.dropout, residual=decoder.residual
    )
    context_size = stack.output_size if context is not None and decoder.context != "last" else None
    try:
        bridge = Bridge(stack, cells, decoder.bridge, context_size=context_size)
    except RegardError as error:
        raise ConfigError(str(error), ("model", "decoder", "bridge")) from None
    embedding = TokenEmbedding(num_target, decoder.embedding_size, dropout=decoder.dropout)
    head = TokenHead(decoder.size, num_target, tied=embedding if decoder.tied_weights else None, never=(PAD, BOS))
    return EncoderDecoder(
        encoding,
        RecurrentDecoder(embedding, cells, head, bridge, query=decoder.query, dropout=decoder.dropout, **options),
    )


def build_mechanism(config: AttentionConfig, *, query_size: int, memory_size: int, input_size: int) -> Mechanism:
    """The mechanism that a recipe's name and options describe.

    Args:
        config: the recipe and its options.
        query_size, memory_size, input_size: of the decoder's state, of the encoder's states, and of the decoder's
            input; a recipe gets those that it has parameters for.

    Raises:
        ConfigError: for an unknown recipe or option (the text has the nearest name), or a value of the wrong type.
    """
    path = ("model", "attention")
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
    options: dict[str, Any] = {}
    for name, value in config.options.items():
        if name not in accepted:
            raise ConfigError(f"{config.recipe} has no option {name!r}; {suggestion(name, accepted)}", (*path, name))
        options[name] = _option(config.recipe, name, value, hints[name])
    sizes = {"query_size": query_size, "memory_size": memory_size, "input_size": input_size}
    try:
        mechanism = recipe(**{name: size for name, size in sizes.items() if name in signature.parameters}, **options)
    except ValueError as error:
        raise ConfigError(f"{config.recipe}: {error}", path) from None
    assert isinstance(mechanism, Mechanism)
    return mechanism


def _check(config: ModelConfig) -> None:
    """Refuses settings that would be ignored."""
    decoder, path = config.decoder, ("model", "decoder")
    if config.attention is None:
        if decoder.order == "attend_then_recur":
            raise ConfigError("order has no effect without attention; leave it out", (*path, "order"))
        if decoder.query != "output":
            raise ConfigError("query has no effect without attention; leave it out", (*path, "query"))
        if decoder.input_feeding:
            raise ConfigError("input_feeding has no effect without attention; leave it out", (*path, "input_feeding"))
        return
    if decoder.order == "attend_then_recur" and decoder.input_feeding is False:
        raise ConfigError(
            "order: attend_then_recur always feeds the context into the cell; for a decoder without feedback use "
            "order: recur_then_attend",
            (*path, "input_feeding"),
        )
    for key, default in (("context", "last"), ("context_use", "first_state")):
        if getattr(decoder, key) != default:
            raise ConfigError(
                f"{key} has no effect with attention; leave it out, or set model.attention to null", (*path, key)
            )


def _option(recipe: str, name: str, value: Any, hint: Any) -> Any:
    """The value of an option, checked against the recipe's type without conversion."""
    path = ("model", "attention", name)
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
