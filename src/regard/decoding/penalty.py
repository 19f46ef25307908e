"""Penalties, which rank hypotheses by length and by attention."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

import torch
from torch import Tensor

from regard.config.search import Search

LEAST_WEIGHT = 1e-9
"""The smallest total weight of a source position in a coverage penalty."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Hypotheses that are ranked.

    Args:
        log_probabilities: of any shape, after processors.
        lengths: a number, or a tensor that broadcasts to them; the end of sentence counts as a token.
        ended: whether they have ended: one value, or one each.
        weights: (..., S), the decoder's main attention summed over the steps of each; None unless the penalty has
            `uses_weights`.
        mask: (..., S) bool, True at real positions; all are real if None.
    """

    log_probabilities: Tensor
    lengths: Tensor | int
    ended: Tensor | bool = True
    weights: Tensor | None = None
    mask: Tensor | None = None


class AbstractPenalty(ABC):
    """Ranks hypotheses by their log-probability and length, and by their attention if `uses_weights` is true.

    A score must increase with the log-probability. `bound` is correct for scores that are monotonic in the length;
    other penalties must override it.
    """

    uses_weights: ClassVar[bool] = False
    """Whether `score` reads the weights of `Candidates`, which are kept only then."""

    @abstractmethod
    def score(self, candidates: Candidates) -> Tensor:
        """The scores, of the shape of the log-probabilities."""

    def bound(self, log_probability: Tensor, length: int | Tensor, max_length: Tensor) -> Tensor:
        """The highest score that an unfinished hypothesis of `length` tokens can reach if further tokens are certain.

        Infinity if the score depends on weights, so that a search continues to the maximum length.
        """
        if self.uses_weights:
            return torch.full_like(log_probability, inf)
        ends = (self.score(Candidates(log_probability, lengths)) for lengths in (length + 1, max_length))
        return torch.maximum(*ends)


@dataclass(frozen=True, slots=True)
class NoPenalty(AbstractPenalty):
    """The log-probability itself, which favours short hypotheses."""

    def score(self, candidates: Candidates) -> Tensor:
        return candidates.log_probabilities


@dataclass(frozen=True, slots=True)
class AveragePenalty(AbstractPenalty):
    """log P / T^alpha: the mean log-probability of a token, if alpha is 1.

    Args:
        alpha: the strength; 0 is no penalty.
        extra: added to T; 1 counts the begin symbol.

    >>> AveragePenalty().score(Candidates(torch.tensor([-6.0]), 3))
    tensor([-2.])
    """

    alpha: float = 1.0
    extra: int = 0

    def score(self, candidates: Candidates) -> Tensor:
        totals = candidates.log_probabilities
        lengths = (_filled(candidates.lengths, totals.device) + self.extra).clamp(min=1)
        return totals / (lengths if self.alpha == 1 else lengths.to(totals) ** self.alpha)


@dataclass(frozen=True, slots=True)
class GnmtPenalty(AbstractPenalty):
    """log P / ((5 + T) / 6)^alpha; alpha = 0 is no penalty.

    Args: as of `AveragePenalty`.

    Source: Wu et al. 2016, Google's Neural Machine Translation System, section 7; its coverage penalty is
    `CoveragePenalty`.

    >>> GnmtPenalty(1.0).score(Candidates(torch.tensor([-6.0]), 7))
    tensor([-3.])
    """

    alpha: float = 0.6
    extra: int = 0

    def score(self, candidates: Candidates) -> Tensor:
        totals = candidates.log_probabilities
        lengths = _filled(candidates.lengths, totals.device, totals.dtype) + self.extra
        return totals / ((5 + lengths) / 6) ** self.alpha


@dataclass(frozen=True, slots=True)
class CoveragePenalty(AbstractPenalty):
    """Another ranking, plus a term for the weights c_j of each source position j, summed over all steps.

    - `gnmt`: β Σ_j log min(c_j, 1), which penalises positions without attention; c_j is at least 1e-9, so that the
      score stays finite.
    - `summary`: -β Σ_j max(c_j - 1, 0), which penalises repeated attention.
    - `tfa`: as `gnmt`, but only for hypotheses that have ended, and a weight of exactly 0 counts as 1. This is how
      tensorflow-addons excludes padding.

    No term exceeds 0, so the bound of the ranking bounds the sum.

    Args:
        ranking: the score without the term.
        kind: `gnmt`, `summary` or `tfa`.
        beta: β.

    Source: Wu et al. 2016, Google's Neural Machine Translation System, section 7; Gehrmann et al. 2018, Bottom-Up
    Abstractive Summarization, section 5 (there with Σ_j max(c_j, 1) - S, which is the same); tensorflow-addons 0.23,
    `BeamSearchDecoder`.

    >>> weights = torch.tensor([[0.5, 1.5, 0.0]])
    >>> candidates = Candidates(torch.tensor([-6.0]), 3, weights=weights, mask=torch.tensor([[True, True, False]]))
    >>> CoveragePenalty(NoPenalty(), "gnmt", 1.0).score(candidates)  # -6 + log 0.5
    tensor([-6.6931])
    >>> CoveragePenalty(NoPenalty(), "summary", 1.0).score(candidates)
    tensor([-6.5000])
    """

    ranking: AbstractPenalty
    kind: Literal["gnmt", "summary", "tfa"]
    beta: float = 0.2

    uses_weights = True

    def score(self, candidates: Candidates) -> Tensor:
        weights = candidates.weights
        assert weights is not None
        if self.kind == "tfa":
            terms = weights.masked_fill(weights == 0, 1).clamp(max=1).log()
        else:
            terms = weights.clamp(LEAST_WEIGHT, 1).log() if self.kind == "gnmt" else -(weights - 1).clamp(min=0)
        if candidates.mask is not None:
            terms = terms.masked_fill(~candidates.mask, 0)
        coverage = terms.sum(-1)
        if self.kind == "tfa":
            coverage = coverage * _filled(candidates.ended, coverage.device, coverage.dtype)
        return self.ranking.score(candidates) + self.beta * coverage

    def bound(self, log_probability: Tensor, length: int | Tensor, max_length: Tensor) -> Tensor:
        return self.ranking.bound(log_probability, length, max_length)


def _filled(value: Tensor | float, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor on the device; numbers are filled in there, as copying one would wait for a GPU."""
    if isinstance(value, Tensor):
        return value.to(device, dtype)
    return torch.full((), value, dtype=dtype, device=device)


def penalty_of(options: Search, ranking: AbstractPenalty | None = None) -> AbstractPenalty:
    """The penalty that the options name, with `ranking` in place of their `length_penalty` if given.

    >>> penalty_of(Search(length_penalty="average"))
    AveragePenalty(alpha=1.0, extra=0)
    """
    extra = int(options.length_counts_begin)
    penalties = {
        "none": NoPenalty(),
        "average": AveragePenalty(extra=extra),
        "gnmt": GnmtPenalty(options.alpha, extra),
        "power": AveragePenalty(options.alpha, extra),
    }
    ranking = penalties[options.length_penalty] if ranking is None else ranking
    kind = options.coverage_penalty
    return ranking if kind == "none" else CoveragePenalty(ranking, kind, options.beta)
