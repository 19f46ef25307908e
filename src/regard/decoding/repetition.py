"""Processors about tokens that a hypothesis has already, and about the unknown token."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from torch import Tensor

from regard.decoding.processor import SearchState
from regard.errors import ConfigError, RegardError


@dataclass(frozen=True, slots=True)
class NoRepeat:
    """Forbids every token that would complete an n-gram of `size` tokens that the hypothesis already has."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"NoRepeat(size={self.size}): size is the length of an n-gram; give 1 or more.")

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor:
        tokens = state.tokens
        length = tokens.shape[1]
        if length < self.size:
            return log_probabilities
        ngrams = tokens.unfold(1, self.size, 1)
        latest = tokens[:, length - self.size + 1 :]
        row, position = (ngrams[..., :-1] == latest[:, None]).all(-1).nonzero(as_tuple=True)
        result = log_probabilities.clone()
        result[row, ngrams[row, position, -1]] = -inf
        return result


@dataclass(frozen=True, slots=True)
class RepetitionPenalty:
    """Multiplies the log-probability of every token that the hypothesis already has by `strength`: p becomes p^θ.

    Keskar divides the logits of such tokens by θ. That makes a negative number larger, so repetition would become
    more probable, and it depends on a constant that may be added to all logits without a change of the model. As
    log-probabilities are at most 0, a factor θ ≥ 1 lowers them all, whatever the logits were.

    Args:
        strength: θ, at least 1; 1 changes nothing.

    Source: Keskar et al. 2019, CTRL, section 4.1.
    """

    strength: float

    def __post_init__(self) -> None:
        if not self.strength >= 1:
            raise ConfigError(
                f"RepetitionPenalty(strength={self.strength}): below 1 it would favour repetition; give 1 or more."
            )

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor:
        repeated = log_probabilities.gather(1, state.tokens) * self.strength
        return log_probabilities.scatter(1, state.tokens, repeated)


@dataclass(frozen=True, slots=True)
class UnknownPenalty:
    """Lowers the log-probability of the unknown token by `strength`; infinity forbids it.

    Args:
        token: the id of the unknown token.
    """

    token: int
    strength: float

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor:
        if not 0 <= self.token < log_probabilities.shape[1]:
            raise RegardError(
                f"unk={self.token} is not a token: the decoder has N={log_probabilities.shape[1]} tokens."
            )
        result = log_probabilities.clone()
        result[:, self.token] -= self.strength
        return result
