"""Length penalties: how hypotheses of different lengths are ranked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from regard.config.search import Search


@dataclass(frozen=True, slots=True)
class Candidates:
    """Hypotheses that are ranked.

    Args:
        log_probabilities: of any shape, with what processors changed.
        lengths: a number, or a tensor that fits to them; the end of sentence counts as a token, and 0 is no tokens.
        ended: whether they have ended: for all, or for each.
        weights: (..., S), the decoder's main attention summed over all steps of each; None if the penalty has no
            `uses_weights`.
        mask: (..., S) bool, True at real positions; all are real if None.
    """

    log_probabilities: Tensor
    lengths: Tensor | int
    ended: Tensor | bool = True
    weights: Tensor | None = None
    mask: Tensor | None = None


class AbstractPenalty(ABC):
    """Ranks hypotheses by their log-probability and length, and by what they attended to if `uses_weights` is true.

    A score must increase with the log-probability. `bound` is correct for scores that are monotonic in the length;
    other penalties must override it.
    """

    uses_weights: ClassVar[bool] = False
    """Whether `score` reads the weights of `Candidates`, which are kept only then."""

    @abstractmethod
    def score(self, candidates: Candidates) -> Tensor:
        """The scores, of the shape of the log-probabilities."""

    def bound(self, log_probability: Tensor, length: int, max_length: Tensor) -> Tensor:
        """The highest score that an unfinished hypothesis of `length` tokens can reach, if all others are certain.

        Infinity if the score depends on weights, so that a search goes on to the maximum length.
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
    """The mean log-probability of a token.

    >>> AveragePenalty().score(Candidates(torch.tensor([-6.0]), 3))
    tensor([-2.])
    """

    def score(self, candidates: Candidates) -> Tensor:
        totals = candidates.log_probabilities
        return totals / torch.as_tensor(candidates.lengths, device=totals.device).clamp(min=1)


@dataclass(frozen=True, slots=True)
class GnmtPenalty(AbstractPenalty):
    """log P / ((5 + T) / 6)^alpha; alpha = 0 is no penalty.

    Source: Wu et al. 2016, Google's Neural Machine Translation System, section 7, without its coverage penalty.

    >>> GnmtPenalty(1.0).score(Candidates(torch.tensor([-6.0]), 7))
    tensor([-3.])
    """

    alpha: float = 0.6

    def score(self, candidates: Candidates) -> Tensor:
        totals = candidates.log_probabilities
        lengths = torch.as_tensor(candidates.lengths, dtype=totals.dtype, device=totals.device)
        return totals / ((5 + lengths) / 6) ** self.alpha


def penalty_of(options: Search) -> AbstractPenalty:
    """The penalty that the options name.

    >>> penalty_of(Search(length_penalty="average"))
    AveragePenalty()
    """
    penalties = {"none": NoPenalty(), "average": AveragePenalty(), "gnmt": GnmtPenalty(options.alpha)}
    return penalties[options.length_penalty]
