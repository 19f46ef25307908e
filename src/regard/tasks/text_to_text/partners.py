"""Models that predict together with another one: the members of an ensemble, and rerankers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data import BOS, EOS, UNKNOWN, Field
from regard.data.field import described
from regard.data.vocabulary import SPECIALS
from regard.decoding import Hypothesis, rescore
from regard.errors import ConfigError, RegardError
from regard.models import EnsembleEncoderDecoder
from regard.tasks.encoded import pad

if TYPE_CHECKING:
    from regard.tasks.text_to_text.model import TextToText

SHOWN = 5
"""The most symbols that a message lists."""


def load_partner(path: Path, key: str, device: torch.device) -> TextToText:
    """The model that a key of `decoding` names: a folder, or a shipped model's name.

    Raises:
        ConfigError: if there is no such model, or it is one of another task.
    """
    from regard.tasks.loading import find, load

    try:
        folder = find(path if path.is_dir() else path.name)
    except RegardError as error:
        raise ConfigError(f"{path} is not a saved model. {error}", ("decoding", key)) from None
    model = load(folder, device=device)
    if model.config.task != "text_to_text":
        raise ConfigError(f"{folder} is a model of another task, {model.config.task}", ("decoding", key))
    partner: TextToText = model
    return partner


def ensemble_of(models: Sequence[TextToText], **options: Any) -> EnsembleEncoderDecoder:
    """The models as one, after a check that they read and write the same symbols in the same order.

    Args:
        models: two or more.
        options: those of `EnsembleDecoder`.

    Raises:
        ConfigError: for models that differ, with what differs.
    """
    first, *others = models
    for other in others:
        if differences := [*_differences(first, other)]:
            lines = "".join(f"\n  {line}" for line in differences)
            raise ConfigError(
                f"{other.name} cannot predict together with {first.name}, as their symbols differ:{lines}",
                ("decoding", "ensemble"),
            )
    return EnsembleEncoderDecoder([model.module for model in models], **options)


def _differences(first: TextToText, other: TextToText) -> Sequence[str]:
    found = []
    for side, ours, theirs in (("source", first.source, other.source), ("target", first.target, other.target)):
        found += [f"{side}: {line}" for line in _differences_of_fields(ours, theirs)]
    if first.is_reversed != other.is_reversed:
        orders = (f"{model.name} {model.config.data.target.direction}" for model in (first, other))
        found.append(f"target: the direction: {', '.join(orders)}")
    return found


def _differences_of_fields(ours: Field, theirs: Field) -> Sequence[str]:
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
    model: TextToText, sources: Sequence[str], outputs: Sequence[Sequence[tuple[str, bool]]]
) -> list[list[Hypothesis] | None]:
    """Outputs as another model scores them, by its own vocabularies and in its own order of writing.

    Args:
        model: the other model.
        sources: B texts.
        outputs: for each, texts, and whether they have ended.

    Returns:
        For each source the hypotheses, or None if the model cannot read it or one of its outputs.
    """
    encodings = [model.source.encode(text) for text in sources]
    extensions = [model._extension(text, encoding) for text, encoding in zip(sources, encodings, strict=True)]
    results: list[list[Hypothesis] | None] = [None] * len(sources)
    longest, most = model._most(model.module.encoder), model._most(model.module.decoder)
    readable, given = [], []
    for i, encoding in enumerate(encodings):
        hypotheses = [_hypothesis(model, text, has_ended, extensions[i]) for text, has_ended in outputs[i]]
        if 0 < len(encoding.tokens) <= longest and all(len(h.tokens) <= most + 1 for h in hypotheses):
            readable.append(i)
            given.append(hypotheses)
    if not readable:
        return results
    memory = model._memory(*pad([encodings[i].ids for i in readable], end=EOS), [extensions[i] for i in readable])
    for i, ranked in zip(readable, rescore(model.module.decoder, memory, given, bos=BOS), strict=True):
        results[i] = ranked
    return results


def unknown_to(model: TextToText, source: str, outputs: Sequence[str]) -> tuple[str, ...]:
    """A warning of the symbols of an input and its outputs that a reranker does not know, if there are any."""
    encoding = model.source.encode(source)
    extension = model._extension(source, encoding)
    unknown = dict.fromkeys(model._unknown(encoding, extension))
    for text in outputs:
        symbols = _symbols(model, text)
        ids = _ids(model, symbols, extension)
        unknown |= dict.fromkeys(symbol for symbol, number in zip(symbols, ids, strict=True) if number == UNKNOWN)
    unknown.pop(SPECIALS[UNKNOWN], None)
    if not unknown:
        return ()
    shown = ", ".join(map(repr, [*unknown][:SHOWN]))
    return (f"the reranker reads as <unk>: {shown}{', …' if len(unknown) > SHOWN else ''}",)


def _symbols(model: TextToText, text: str) -> list[str]:
    """The symbols of an output, in which what stands for an unknown symbol is one, whatever the units."""
    symbols, unknown = list(model.target.split(text)), SPECIALS[UNKNOWN]
    if unknown in symbols or unknown not in text:
        return symbols
    first, *others = text.split(unknown)
    return [*model.target.split(first), *(each for part in others for each in (unknown, *model.target.split(part)))]


def _ids(model: TextToText, symbols: Sequence[str], extension: Any) -> NDArray[np.int64]:
    """The ids of an output's symbols, those that are copied among them."""
    if model.extended is not None and extension is not None:
        return model.extended.ids(symbols, extension)
    return model.target.vocabulary.ids(symbols)


def _hypothesis(model: TextToText, text: str, has_ended: bool, extension: Any) -> Hypothesis:
    """A text as the model writes it, without scores."""
    ids = _ids(model, _symbols(model, text), extension)
    ids = np.append(ids[::-1] if model.is_reversed else ids, [EOS] * has_ended)
    tokens = torch.from_numpy(ids.astype(np.int64))
    return Hypothesis(tokens, 0.0, 0.0, "eos" if has_ended else "length", torch.zeros(len(tokens)))
