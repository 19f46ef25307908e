"""OpenNMT-py 3 and its successor eole: their options of searches as our settings, and their vocabularies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.interop.options import Options
from regard.interop.texts import Symbols

OPENNMT: Mapping[str, Any] = {
    "beam_size": 5,
    "n_best": 1,
    "ratio": 0.0,
    "length_penalty": "avg",
    "alpha": 1.0,
    "coverage_penalty": "none",
    "beta": 0.0,
    "stepwise_penalty": False,
    "min_length": 0,
    "max_length": 250,
    "max_length_ratio": 1.25,
    "block_ngram_repeat": 0,
    "ignore_when_blocking": [],
    "ban_unk_token": False,
    "replace_unk": False,
    "top_k": 0,
    "top_p": 0.0,
}
"""The defaults of `onmt_translate` 3.5.1; no checkpoint has its options."""
EOLE: Mapping[str, Any] = {**OPENNMT, "max_length_ratio": 2}
"""The defaults of `eole predict` 0.6.4; the section `inference` of a model takes precedence."""
EXTRA = 5
"""Symbols that an output may have in addition to `max_length_ratio` times those of its input."""
RANKINGS = {"none": "none", "avg": "average", "wu": "gnmt"}
COVERAGES = {"none": "none", "wu": "gnmt", "summary": "summary"}


def search_section(options: Options, notes: list[str]) -> dict[str, Any]:
    """The section `decoding`.

    In both programs the lengths in penalties count the begin symbol, the search ends when the most probable
    continuation is an end, and finished hypotheses occupy places of the beam.

    Args:
        options: with the defaults of the program.
        notes: a sentence is appended for each ignored option.

    Raises:
        UnsupportedError: for an unknown penalty.
    """
    beam = options["beam_size"]
    section: dict[str, Any] = {"beam": beam, "num_best": options["n_best"], "min_length": options["min_length"]}
    alpha, ranking = float(options["alpha"]), RANKINGS[options.require("length_penalty", list(RANKINGS))]
    if ranking == "average" and alpha != 1:
        ranking = "power"
    section["length_penalty"] = ranking if alpha else "none"
    if section["length_penalty"] != "none":
        section["length_counts_begin"] = True
    if section["length_penalty"] in ("gnmt", "power"):
        section["alpha"] = alpha
    coverage = COVERAGES[options.require("coverage_penalty", list(COVERAGES))]
    if coverage != "none" and options["beta"]:
        section |= {"coverage_penalty": coverage, "beta": float(options["beta"])}
    if beam > 1:
        section["stop"] = "top"
    if options["max_length_ratio"] > 0:
        section |= {"max_length_ratio": float(options["max_length_ratio"]), "max_length_extra": float(EXTRA)}
        section["max_length_cap"] = options["max_length"]
    else:
        section["max_length"] = options["max_length"]
    section["no_repeat_ngram_size"] = max(0, options["block_ngram_repeat"])
    if options["ban_unk_token"]:
        section["unknown_penalty"] = 1000.0
    for name, reason in (
        ("ratio", "it does not end the search"),
        ("stepwise_penalty", "the coverage penalty applies to whole outputs"),
        ("ignore_when_blocking", "no n-gram is repeated, of any symbols"),
        ("replace_unk", "an unknown symbol stays <unk>"),
        ("top_k", "the search does not sample; see decoding.method"),
        ("top_p", "the search does not sample; see decoding.method"),
    ):
        if options[name]:
            notes.append(f"{name}: {options[name]} is ignored: {reason}.")
    return section


def side_symbols(vocabularies: Mapping[str, Any], path: Path, **specials: str) -> tuple[Symbols, Symbols]:
    """The vocabularies of source and target, as lists under `src` and `tgt`.

    Args:
        path: their file, for errors.
        specials: as in `Symbols.of`.

    Raises:
        DataError: for a side without a list.
    """
    for side in ("src", "tgt"):
        if not isinstance(vocabularies.get(side), list):
            raise DataError(f"{path}: expected a list of symbols under {side!r} of its vocabularies.")
    begin: Any = vocabularies.get("decoder_start_token", specials.pop("begin"))
    source, target = (Symbols.of(vocabularies[side], begin=begin, **specials) for side in ("src", "tgt"))
    return source, target
