"""Models that predict together with another one: the members of an ensemble, and rerankers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.data.tally import unknown_symbols
from regard.data.text import EOS, UNKNOWN, Field
from regard.data.text.field import described
from regard.data.text.vocabulary import SPECIALS
from regard.decoding import Hypothesis, rescore
from regard.errors import ConfigError, InputError, first_of
from regard.models import EnsembleEncoderDecoder

if TYPE_CHECKING:
    from regard.tasks.text_generation.model import AbstractWriter
    from regard.tasks.text_generation.source import InputSource

SHOWN = 5
"""The most symbols that a message lists."""


def ensemble_of(models: Sequence[AbstractWriter[Any, Any]], **options: Any) -> EnsembleEncoderDecoder:
    """The models as one module; all read and write the same symbols in the same order.

    Raises:
        ConfigError: for models that do not, with the differences.
    """
    first, *others = models
    for other in others:
        if differences := first.differences(other):
            lines = "".join(f"\n  {line}" for line in differences)
            raise ConfigError(
                f"{other.name} cannot predict together with {first.name}, as their symbols differ:{lines}",
                ("decoding", "ensemble"),
            )
    return EnsembleEncoderDecoder([model.module for model in models], **options)


def differences_of_fields(ours: Field, theirs: Field) -> list[str]:
    """The differences of two fields, a line each."""
    # that of each column, if there are several
    of_both = [getattr(field.normalisation, "each", field.normalisation) for field in (ours, theirs)]
    values = {name: tuple(getattr(one, name) for one in of_both) for name in ("case", "unicode")}
    lines = [f"the {name}: {first}, {second}" for name, (first, second) in values.items() if first != second]
    if (units := described(ours.units)) != (other := described(theirs.units)):
        lines.append(f"the units: {_listed(units)}, {_listed(other)}")
    if ours.vocabulary.symbols != theirs.vocabulary.symbols:
        first, second = dict.fromkeys(ours.vocabulary.symbols), dict.fromkeys(theirs.vocabulary.symbols)
        missing = {
            "only the first has": [symbol for symbol in first if symbol not in second],
            "only the other has": [symbol for symbol in second if symbol not in first],
        }
        parts = [f"{owner} {first_of([*map(repr, symbols)], SHOWN)}" for owner, symbols in missing.items() if symbols]
        lines.append(f"the vocabulary: {'; '.join(parts) or 'the symbols have another order'}")
    return lines


def _listed(units: Mapping[str, Any]) -> str:
    """Units with their options, in words."""
    if "columns" in units:
        return ", then ".join(map(_listed, units["columns"]))
    kind, *options = (str(value) if name == "units" else f"{name} {value!r}" for name, value in units.items())
    return f"{kind} ({', '.join(options)})" if options else kind


def scored_by(
    model: AbstractWriter[Any, Any], inputs: Sequence[Any], outputs: Sequence[Sequence[tuple[str, bool]]]
) -> list[list[Hypothesis] | None]:
    """Outputs with the scores of another model, by its own vocabularies and in its own direction.

    Args:
        outputs: for each input, texts, and whether they have ended.

    Returns:
        For each input the hypotheses, or None if the model cannot read it or one of its outputs.
    """
    from regard.tasks.text_generation.model import max_symbols

    sources = model.sources(inputs)
    results: list[list[Hypothesis] | None] = [None] * len(sources)
    most = max_symbols(model.module.decoder)
    readable = {}
    for i, source in enumerate(sources):
        hypotheses = [_hypothesis(model, text, has_ended, source) for text, has_ended in outputs[i]]
        if source.size and all(len(h.tokens) <= most + 1 for h in hypotheses):
            readable[i] = hypotheses
    if not readable:
        return results
    memory = model.encode([sources[i] for i in readable]).memory
    rescored = rescore(model.module.decoder, memory, list(readable.values()), bos=model.begin)
    for i, ranked in zip(readable, rescored, strict=True):
        results[i] = ranked
    return results


def scored_outputs(
    model: AbstractWriter[Any, Any], outputs: Sequence[Any], sources: Sequence[InputSource]
) -> list[Hypothesis]:
    """Given outputs, which have ended, as hypotheses without scores.

    Raises:
        DataError: for an output that is not a text.
    """
    for number, output in enumerate(outputs):
        if not isinstance(output, str):
            raise InputError(number, f"the output is a {type(output).__name__}; expected a text")
    return [_hypothesis(model, text, True, source) for text, source in zip(outputs, sources, strict=True)]


def unknown_to(model: AbstractWriter[Any, Any], given: Any, outputs: Sequence[str]) -> tuple[str, ...]:
    """A warning about the symbols of an input and its outputs that a reranker does not know, if there are any."""
    (source,) = model.sources([given])
    unknown = dict.fromkeys(source.unknown)
    for text in outputs:
        symbols = _symbols(model, text)
        ids = source.spelling.ids(symbols)
        unknown |= dict.fromkeys(symbol for symbol, number in zip(symbols, ids, strict=True) if number == UNKNOWN)
    unknown.pop(SPECIALS[UNKNOWN], None)
    if not unknown:
        return ()
    return (unknown_symbols(unknown, "the reranker reads as <unk>", most=SHOWN),)


def _symbols(model: AbstractWriter[Any, Any], text: str) -> list[str]:
    """The symbols of an output, with the name of the unknown symbol as one symbol, whatever the units."""
    symbols, unknown = list(model.target.split(text)), SPECIALS[UNKNOWN]
    if unknown in symbols or unknown not in text:
        return symbols
    first, *others = text.split(unknown)
    return [*model.target.split(first), *(each for part in others for each in (unknown, *model.target.split(part)))]


def _hypothesis(model: AbstractWriter[Any, Any], text: str, has_ended: bool, source: InputSource) -> Hypothesis:
    """A text as a hypothesis of the model, without scores."""
    ids = source.spelling.ids(_symbols(model, text))
    ids = np.append(ids[::-1] if model.is_reversed else ids, [EOS] * has_ended)
    tokens = torch.from_numpy(ids.astype(np.int64))
    return Hypothesis(tokens, 0.0, 0.0, "eos" if has_ended else "length", torch.zeros(len(tokens)))
