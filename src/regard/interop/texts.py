"""Models that turn texts into texts, of weights by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from regard.data.text import Field, Normalisation
from regard.data.text.units import WhitespaceUnits
from regard.interop.contract import UNKNOWN_DATA, Converted
from regard.interop.named_weights import Names, load_named
from regard.interop.options import validated
from regard.interop.symbols import Symbols
from regard.tasks import TextToText
from regard.tasks.text_to_text.config import TextToTextConfig

SIDE: Mapping[str, Any] = {"units": "whitespace", "case": "keep", "unicode": "keep"}
"""How texts become symbols that were split into them before."""


def split_field(symbols: Symbols) -> Field:
    """The field of texts that are symbols between blanks."""
    return Field(Normalisation("keep", "keep"), WhitespaceUnits(), symbols.vocabulary)


def text_model(
    source: Field,
    target: Field,
    weights: Mapping[str, Tensor],
    names: Names | Callable[[nn.Module], Names],
    *,
    data: Mapping[str, Any],
    model: Mapping[str, Any],
    decoding: Mapping[str, Any],
    notes: Sequence[str] = (),
    without_bias: Sequence[str] = (),
) -> Converted:
    """The model of a configuration with these weights.

    Args:
        weights, names: as in `load_named`, or the names of a network; rows of symbols are in our order.
        data, model, decoding: sections of the configuration; the rest has its defaults.
        notes: as in `Converted`.
        without_bias: as in `load_named`.

    Raises:
        DataError: for weights that do not fit, or a value of the configuration that there is not.
        ConfigError: for a configuration that contradicts itself.
    """
    values = {"data": {"train": UNKNOWN_DATA, **data}, "model": dict(model), "decoding": dict(decoding)}
    config = validated(TextToTextConfig, values, "the converted configuration")
    converted = TextToText.build(config, source, target)
    found = names(converted.module) if callable(names) else names
    load_named(converted.module, weights, found, without_bias=without_bias)
    converted.module.float()
    return Converted(converted, tuple(notes))
