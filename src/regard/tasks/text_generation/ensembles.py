"""Models that predict together with another one: the members of an ensemble, and rerankers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.data.tally import unknown_symbols
from regard.data.text import EOS, UNKNOWN, Field
from regard.data.text.field import described
from regard.data.text.vocabulary import SPECIALS
from regard.decoding import Hypothesis, rescore
from regard.errors import ConfigError
from regard.models import EnsembleEncoderDecoder

if TYPE_CHECKING:
    from regard.tasks.text_generation.model import AbstractWriter
    from regard.tasks.text_generation.source import InputSource

SHOWN = 5
"""The most symbols that a message lists."""


def ensemble_of(models: Sequence[AbstractWriter[Any, Any]], **options: Any) -> EnsembleEncoderDecoder:
    """The models as one, after a check that they read and write the same symbols in the same order."""
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
    """In what two fields differ, a line each."""
    found = []
    if ours.normalisation != theirs.normalisation:
        found += [
            f"the {name}: {value}, {getattr(theirs.normalisation, name)}"
            for name, value in asdict(ours.normalisation).items()
            if value != getattr(theirs.normalisation, name)
        ]
    if (units := described(ours.units)) != (other := described(theirs.units)):
        found.append(f"the units: {_listed(units)}, {_listed(other)}")
    if ours.vocabulary.symbols != theirs.vocabulary.symbols:
        mine, its = dict.fromkeys(ours.vocabulary.symbols), dict.fromkeys(theirs.vocabulary.symbols)
        lacking = {
            "only the first has": [symbol for symbol in mine if symbol not in its],
            "only the other has": [symbol for symbol in its if symbol not in mine],
        }
        parts = [
            f"{what} {', '.join(map(repr, symbols[:SHOWN]))}{', …' if len(symbols) > SHOWN else ''}"
            for what, symbols in lacking.items()
            if symbols
        ]
        found.append(f"the vocabulary: {'; '.join(parts) or 'the symbols have another order'}")
    return found


def _listed(units: Mapping[str, Any]) -> str:
    """Units with their options, in words."""
    if "columns" in units:
        return ", then ".join(map(_listed, units["columns"]))
    kind, *options = (str(value) if name == "units" else f"{name} {value!r}" for name, value in units.items())
    return f"{kind} ({', '.join(options)})" if options else kind


def scored_by(
    model: AbstractWriter[Any, Any], inputs: Sequence[Any], outputs: Sequence[Sequence[tuple[str, bool]]]
) -> list[list[Hypothesis] | None]:
    """Outputs as another model scores them, by its own vocabularies and in its own order of writing.

    Args:
        outputs: for each, texts, and whether they have ended.

    Returns:
        For each input the hypotheses, or None if the model cannot read it or one of its outputs.
    """
    from regard.tasks.text_generation.model import most_steps

    sources = model.sources(inputs)
    results: list[list[Hypothesis] | None] = [None] * len(sources)
    most = most_steps(model.module.decoder)
    readable, given = [], []
    for i, source in enumerate(sources):
        hypotheses = [_hypothesis(model, text, has_ended, source) for text, has_ended in outputs[i]]
        if source.size and all(len(h.tokens) <= most + 1 for h in hypotheses):
            readable.append(i)
            given.append(hypotheses)
    if not readable:
        return results
    memory = model.loaded([sources[i] for i in readable]).memory
    for i, ranked in zip(readable, rescore(model.module.decoder, memory, given, bos=model.begin), strict=True):
        results[i] = ranked
    return results


def unknown_to(model: AbstractWriter[Any, Any], given: Any, outputs: Sequence[str]) -> tuple[str, ...]:
    """A warning of the symbols of an input and its outputs that a reranker does not know, if there are any."""
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
    """The symbols of an output, in which what stands for an unknown symbol is one, whatever the units."""
    symbols, unknown = list(model.target.split(text)), SPECIALS[UNKNOWN]
    if unknown in symbols or unknown not in text:
        return symbols
    first, *others = text.split(unknown)
    return [*model.target.split(first), *(each for part in others for each in (unknown, *model.target.split(part)))]


def _hypothesis(model: AbstractWriter[Any, Any], text: str, has_ended: bool, source: InputSource) -> Hypothesis:
    """A text as the model writes it, without scores."""
    ids = source.spelling.ids(_symbols(model, text))
    ids = np.append(ids[::-1] if model.is_reversed else ids, [EOS] * has_ended)
    tokens = torch.from_numpy(ids.astype(np.int64))
    return Hypothesis(tokens, 0.0, 0.0, "eos" if has_ended else "length", torch.zeros(len(tokens)))
