"""`model.json`: the symbols, normalisation, limits and search of an exported model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.text import EOS, UNKNOWN, Field
from regard.data.text.columns import ColumnNormalisation
from regard.data.text.field import described
from regard.data.text.pieces import SentencePieceUnits
from regard.data.text.vocabulary import SPECIALS
from regard.interop.export.networks import Networks
from regard.tasks import TextToText
from regard.tasks.text_generation.model import max_symbols

FACTS = "model.json"
FORMAT = 1


def facts_of(model: TextToText, networks: Networks) -> dict[str, Any]:
    """The content of `model.json`. `limits` and `search` are those of `decoding`.

    Args:
        model: with one direction.
    """
    decoding = model.config.decoding
    data = model.config.data
    longest = min(max_symbols(model.module.encoder) - data.source_begin, model._longest(decoding))
    if networks.positions[1] is not None:
        longest = min(longest, networks.positions[1] - 1 - data.source_begin)
    output = max_symbols(model.module.decoder)
    return {
        "format": FORMAT,
        "name": model.name,
        "source": {**_side(model.source), "begins": data.source_begin, "ends": data.source_end},
        "target": {**_side(model.target), "reversed": model.is_reversed},
        "symbols": {"begin": model.begin, "end": EOS, "unknown": UNKNOWN},
        "memory": len(networks.memory_axes),
        "state": len(networks.state_axes),
        "alignment": networks.has_alignment,
        "limits": {
            "source": longest,
            "output": None if output >= np.iinfo(np.int32).max else output,
            "max_length": decoding.max_length,
            "max_length_ratio": decoding.max_length_ratio,
            "extra": decoding.max_length_extra,
            "cap": decoding.max_length_cap,
            "min_length": decoding.min_length,
            "min_length_ratio": decoding.min_length_ratio,
        },
        "search": {
            "beam": decoding.beam,
            "num_best": decoding.num_best,
            "length_penalty": decoding.length_penalty,
            "alpha": decoding.alpha,
            "counts_begin": decoding.length_counts_begin,
        },
    }


def write_facts(facts: dict[str, Any], folder: Path) -> None:
    """Writes `model.json`."""
    text = json.dumps(facts, ensure_ascii=False, indent=1)
    (folder / FACTS).write_text(text + "\n", encoding="utf-8", newline="\n")


def write_pieces(model: TextToText, folder: Path) -> None:
    """Writes the sentencepiece models of a model's texts."""
    for name, side in (("source", model.source), ("target", model.target)):
        if isinstance(side.units, SentencePieceUnits):
            (folder / f"{name}.model").write_bytes(side.units.model)


def _side(field: Field) -> dict[str, Any]:
    normalisation = field.normalisation
    each = normalisation.each if isinstance(normalisation, ColumnNormalisation) else normalisation
    return {
        "case": each.case,
        "unicode": each.unicode,
        **described(field.units),
        "symbols": [*SPECIALS, *field.vocabulary.symbols],
    }
