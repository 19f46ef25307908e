"""Length penalties: how hypotheses of different lengths are ranked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.config.search import Search


class AbstractPenalty(ABC):
    """Ranks hypotheses by their log-probability and length; the end of sentence counts as a token.

    A score must increase with the log-probability. `bound` is correct for scores that are monotonic in the length;
    other penalties must override it.
    """

    @abstractmethod
    def score(self, log_probability: Tensor, length: Tensor | int) -> Tensor:
        """The score, of the shape of `log_probability`; the length may be 0 (no tokens)."""

    def bound(self, log_probability: Tensor, length: int, max_length: Tensor) -> Tensor:
        """The highest score that an unfinished hypothesis of `length` tokens can reach, if all others are certain."""
        return torch.maximum(self.score(log_probability, length + 1), self.score(log_probability, max_length))


@dataclass(frozen=True, slots=True)
class NoPenalty(AbstractPenalty):
    """The log-probability itself, which favours short hypotheses."""

    def score(self, log_probability: Tensor, length: Tensor | int) -> Tensor:
        return log_probability


@dataclass(frozen=True, slots=True)
class AveragePenalty(AbstractPenalty):
    """The mean log-probability of a token.

    >>> AveragePenalty().score(torch.tensor([-6.0]), 3)
    tensor([-2.])
    """

    def score(self, log_probability: Tensor, length: Tensor | int) -> Tensor:
        return log_probability / torch.as_tensor(length, device=log_probability.device).clamp(min=1)


@dataclass(frozen=True, slots=True)
class GnmtPenalty(AbstractPenalty):
    """log P / ((5 + T) / 6)^alpha; alpha = 0 is no penalty.

    Source: Wu et al. 2016, Google's Neural Machine Translation System, section 7, without its coverage penalty.

    >>> GnmtPenalty(1.0).score(torch.tensor([-6.0]), 7)
    tensor([-3.])
    """

    alpha: float = 0.6

    def score(self, log_probability: Tensor, length: Tensor | int) -> Tensor:
        lengths = torch.as_tensor(length, dtype=log_probability.dtype, device=log_probability.device)
        return log_probability / ((5 + lengths) / 6) ** self.alpha


def penalty_of(options: Search) -> AbstractPenalty:
    """The penalty that the options name.

    >>> penalty_of(Search(length_penalty="average"))
    AveragePenalty()
    """
    penalties = {"none": NoPenalty(), "average": AveragePenalty(), "gnmt": GnmtPenalty(options.alpha)}
    return penalties[options.length_penalty]
