"""Processors, which change the next token's log-probabilities before a search uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from torch import Tensor

from regard.config.search import Search
from regard.errors import ConfigError, ShapeError
from regard.shapes import describe


class Processor(Protocol):
    """Any callable from (R, N) log-probabilities and the (R, t) tokens so far, without bos, to new log-probabilities.

    It changes which tokens are chosen and how hypotheses are ranked; `Hypothesis.log_probability` stays the model's. It
    must return a new tensor, whose values do not exceed 0, otherwise a beam may stop too early. Rows are the hypotheses
    that are still searched, so a processor knows neither the sentence nor its source.
    """

    def __call__(self, log_probabilities: Tensor, tokens: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class NoRepeat:
    """Forbids every token that would complete an n-gram of `size` tokens that the hypothesis already has."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"NoRepeat(size={self.size}): size is the length of an n-gram; give 1 or more.")

    def __call__(self, log_probabilities: Tensor, tokens: Tensor, /) -> Tensor:
        length = tokens.shape[1]
        if length < self.size:
            return log_probabilities
        ngrams = tokens.unfold(1, self.size, 1)
        latest = tokens[:, length - self.size + 1 :]
        row, position = (ngrams[..., :-1] == latest[:, None]).all(-1).nonzero(as_tuple=True)
        result = log_probabilities.clone()
        result[row, ngrams[row, position, -1]] = -inf
        return result


def processors_of(options: Search, further: Sequence[Processor] = ()) -> tuple[Processor, ...]:
    """The processors that the options name, then further ones."""
    blocking = (NoRepeat(options.no_repeat_ngram_size),) if options.no_repeat_ngram_size else ()
    return (*blocking, *further)


def process(
    log_probabilities: Tensor, tokens: Tensor | None, processors: Sequence[Processor], *, forbidden: int | None = None
) -> Tensor:
    """Applies the processors in order, then forbids one token (the end, before the minimum length)."""
    result = log_probabilities
    for processor in processors:
        assert tokens is not None
        result = processor(result, tokens)
        if result.shape != log_probabilities.shape:
            raise ShapeError(
                f"The processor {processor!r} must return log-probabilities of the shape of its input.\n"
                + describe({"input": ("R N", log_probabilities), "returned": ("R N", result)})
            )
    if forbidden is not None:
        result = result.clone()
        result[:, forbidden] = -inf
    return result
