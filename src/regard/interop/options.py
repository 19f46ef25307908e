"""The options of models of other programs; those of `onmt_translate` and `eole predict` as settings of our search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from regard.config.keys import keys
from regard.errors import DataError, UnsupportedError

SectionT = TypeVar("SectionT", bound=BaseModel)


class Options:
    """Values by name, some of which are refused."""

    def __init__(self, values: Mapping[str, Any], program: str, defaults: Mapping[str, Any]) -> None:
        self.values = {**defaults, **values}
        self.program = program

    def __getitem__(self, name: str) -> Any:
        """The value of an option."""
        if name not in self.values:
            raise DataError(f"The options of the model of {self.program} lack {name!r}.")
        return self.values[name]

    def require(self, name: str, accepted: Sequence[Any], because: str = "nothing here computes it") -> Any:
        """The value of an option, one of those that can be expressed."""
        value = self[name]
        if value not in accepted:
            choices = " or ".join(map(repr, accepted))
            raise UnsupportedError(
                f"The option {name} of the model of {self.program} is {value!r}, but {because}; it must be {choices}."
            )
        return value


def validated(schema: type[SectionT], values: Mapping[str, Any], source: Any) -> SectionT:
    """The values as a configuration."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        path = tuple(map(str, first["loc"]))
        if first["type"] == "missing" and (key := keys(schema).get(path)) is not None:
            raise DataError(f"{source}: {'.'.join(path)} is missing: {key.field.description}.") from None
        raise DataError(f"{source}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


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
"""The defaults of `onmt_translate` 3.5.1, which no checkpoint holds."""
EOLE: Mapping[str, Any] = {**OPENNMT, "max_length_ratio": 2}
"""Those of `eole predict` 0.6.4, which the section `inference` of a model replaces."""
EXTRA = 5
"""Symbols that an output may have beside `max_length_ratio` times those of its input."""
RANKINGS = {"none": "none", "avg": "average", "wu": "gnmt"}
COVERAGES = {"none": "none", "wu": "gnmt", "summary": "summary"}


def search_section(options: Options, notes: list[str]) -> dict[str, Any]:
    """The section `decoding`.

    Lengths that scores are divided by count the begin symbol there. The search ends when the most probable continuation
    is an end; hypotheses that have ended take places of the beam.

    Args:
        options: with the defaults of the program.
        notes: gets a sentence for each option that is left out.

    Raises:
        UnsupportedError: for a penalty that there is not.
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
        ("ratio", "the search ends as without it"),
        ("stepwise_penalty", "the coverage penalty ranks whole outputs"),
        ("ignore_when_blocking", "no n-gram is repeated, whatever its symbols"),
        ("replace_unk", "an unknown symbol stays <unk>"),
        ("top_k", "outputs are searched for, not drawn; see decoding.method"),
        ("top_p", "outputs are searched for, not drawn; see decoding.method"),
    ):
        if options[name]:
            notes.append(f"{name}: {options[name]} is left out: {reason}.")
    return section
