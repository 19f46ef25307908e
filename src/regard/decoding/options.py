"""The options of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real

from regard.decoding.penalty import AbstractPenalty, AveragePenalty, GnmtPenalty, NoPenalty
from regard.decoding.processor import Processor
from regard.errors import ConfigError

MAX_HYPOTHESES = 1_000_000
"""The largest number of hypotheses or samples per sentence; more would exhaust the memory."""


def _require(options: object, condition: bool, name: str, advice: str) -> None:
    if not condition:
        raise ConfigError(f"{name}={getattr(options, name)!r}: {advice}", path=("decoding", name))


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Search:
    """Options of beam search, and of greedy search, which is `beam=1`.

    Args:
        beam: the number of hypotheses that are kept per sentence at each step.
        num_best: the number of hypotheses that are returned per sentence; fewer if fewer exist. It may exceed the beam,
            except in greedy search.
        length_penalty: "none", "average", "gnmt", or your own penalty.
        alpha: the strength of the gnmt penalty; the others ignore it.
        min_length: the number of tokens that must precede the end of sentence. A sentence whose maximum length is
            smaller ends by length.
        processors: they change the log-probabilities of the next token, in order (`regard.decoding.Processor`).

    Raises:
        ConfigError: for an invalid value.

    >>> Search(beam=4, length_penalty="average").penalty
    AveragePenalty()
    """

    beam: int = 5
    num_best: int = 1
    length_penalty: str | AbstractPenalty = "gnmt"
    alpha: float = 0.6
    min_length: int = 0
    processors: tuple[Processor, ...] = ()

    def __post_init__(self) -> None:
        require = partial(_require, self)
        for name in ("beam", "num_best", "min_length"):
            require(_is_whole(getattr(self, name)), name, "give a whole number.")
        for name in ("beam", "num_best"):
            require(getattr(self, name) <= MAX_HYPOTHESES, name, f"give {MAX_HYPOTHESES:,} or fewer.")
        require(self.beam >= 1, "beam", "give a number of hypotheses, 1 (greedy) or more.")
        require(self.num_best >= 1, "num_best", "give a number of hypotheses, 1 or more.")
        require(
            self.beam > 1 or self.num_best == 1,
            "num_best",
            "greedy search (beam=1) returns one hypothesis; give a wider beam.",
        )
        require(
            isinstance(self.length_penalty, AbstractPenalty) or self.length_penalty in ("none", "average", "gnmt"),
            "length_penalty",
            "choose none, average or gnmt, or give an AbstractPenalty.",
        )
        require(
            _is_number(self.alpha) and math.isfinite(self.alpha) and self.alpha >= 0,
            "alpha",
            "give 0 (no penalty) or more; 0.6 is common.",
        )
        require(self.min_length >= 0, "min_length", "give a number of tokens, 0 or more.")

    @property
    def penalty(self) -> AbstractPenalty:
        """The penalty that `length_penalty` and `alpha` name."""
        if isinstance(self.length_penalty, AbstractPenalty):
            return self.length_penalty
        penalties = {"none": NoPenalty(), "average": AveragePenalty(), "gnmt": GnmtPenalty(self.alpha)}
        return penalties[self.length_penalty]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Options of sampling; temperature, top_k and top_p change only the draw, never the returned log-probabilities.

    Args:
        num_samples: the number of independent samples per sentence; a sample may occur twice.
        temperature: log-probabilities are divided by it; below 1 they become sharper, above 1 flatter.
        top_k: only the k most probable tokens are drawn from; all if None.
        top_p: only the most probable tokens that together reach this probability (at the temperature) are drawn from.
        seed: makes a call repeatable, though the samples of a sentence may depend on its batch. If None, torch's global
            generator is used.
        min_length, processors: as in `Search`.

    Raises:
        ConfigError: for an invalid value.
    """

    num_samples: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int | None = None
    min_length: int = 0
    processors: tuple[Processor, ...] = ()

    def __post_init__(self) -> None:
        require = partial(_require, self)
        for name in ("num_samples", "top_k", "min_length", "seed"):
            value = getattr(self, name)
            require(value is None or _is_whole(value), name, "give a whole number.")
        require(
            1 <= self.num_samples <= MAX_HYPOTHESES,
            "num_samples",
            f"give the number of samples per sentence, from 1 to {MAX_HYPOTHESES:,}.",
        )
        require(
            _is_number(self.temperature) and math.isfinite(self.temperature) and self.temperature > 0,
            "temperature",
            "give a number above 0; for the most probable token at every step use Search(beam=1).",
        )
        require(self.top_k is None or self.top_k >= 1, "top_k", "give a number of tokens, 1 or more.")
        require(
            _is_number(self.top_p) and 0 < self.top_p <= 1,
            "top_p",
            "give a probability above 0, up to 1 (all tokens).",
        )
        require(self.min_length >= 0, "min_length", "give a number of tokens, 0 or more.")
