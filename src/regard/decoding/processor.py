"""Processors: what changes the log-probabilities of the next token, of repetitions, unknown tokens and the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import torch
from torch import Tensor

from regard.errors import ConfigError, RegardError, ShapeError
from regard.ops import largest
from regard.shapes import describe


@dataclass(frozen=True, slots=True)
class SearchSource:
    """The sources of the sentences of a search.

    Args:
        ids: (B, S) long, or None if they are not symbols.
        mask: (B, S) bool, True at real positions; all are real if None. S is that of the alignments.
    """

    ids: Tensor | None = None
    mask: Tensor | None = None


@dataclass(frozen=True, slots=True)
class SearchState:
    """The hypotheses of a search when their next token is chosen, R rows.

    What belongs to sentences has B rows, in the order in which they were given to the search. `sentences` says which of
    them each row belongs to: `state.source.ids[state.sentences]`.

    Args:
        tokens: (R, t), the tokens so far, without bos.
        log_probabilities: (R, N), those of the model, before any processor.
        sentences: (R,), the number of each row's sentence in the batch.
        ended: (R,) bool, hypotheses that have ended; what is said of their next token is not used.
        may_end: (R,) bool, False before the minimum length and while required phrases are lacking.
        eos: the id that ends a hypothesis.
        items: (B,), the numbers by which sentences differ (`sample`), if they were given.
        source: what was given to the search.
        weights: (R, S), the decoder's main attention (mean of heads) summed over the steps so far, that of the next
            token included. None if no processor or penalty has `uses_weights`.
        peaks: (R, t + 1), the position with the largest weight at each of these steps, or None.
    """

    tokens: Tensor
    log_probabilities: Tensor
    sentences: Tensor
    ended: Tensor
    may_end: Tensor
    eos: int
    items: Tensor | None = None
    source: SearchSource | None = None
    weights: Tensor | None = None
    peaks: Tensor | None = None

    @property
    def step(self) -> int:
        """The number of the token that is chosen, from 1."""
        return self.tokens.shape[1] + 1


class Processor(Protocol):
    """Any callable from (R, N) log-probabilities and the `SearchState` to new log-probabilities.

    It changes which tokens are chosen and how hypotheses are ranked; `Hypothesis.log_probability` stays the model's. It
    must return a new tensor, whose values do not exceed 0, otherwise a beam may stop too early. A processor that sets
    `uses_weights = True` gets the weights and peaks of the attention, which are kept only if one does.
    """

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor: ...


def uses_weights(reader: object) -> bool:
    """Whether a processor or penalty asks for the weights of the attention."""
    return bool(getattr(reader, "uses_weights", False))


def process(
    log_probabilities: Tensor,
    state: SearchState | None,
    processors: Sequence[Processor],
) -> Tensor:
    """Applies the processors in order.

    Args:
        state: may be None if there are no processors.
    """
    result = log_probabilities
    for processor in processors:
        assert state is not None
        result = processor(result, state)
        if result.shape != log_probabilities.shape:
            raise ShapeError(
                f"The processor {processor!r} must return log-probabilities of the shape of its input.\n"
                + describe({"input": ("R N", log_probabilities), "returned": ("R N", result)})
            )
    return result


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


@dataclass(frozen=True, slots=True)
class EosThreshold:
    """A hypothesis may end only if log p(end) > γ · max over other tokens of log p, by the model's log-probabilities.

    With γ above 1 the end may be less probable than the best continuation, but not arbitrarily so: it need not be the
    most probable token, and outputs are not cut short because the end is admitted at every step.

    Args:
        factor: γ, above 0.

    Source: Hannun et al. 2019, Sequence-to-Sequence Speech Recognition with Time-Depth Separable Convolutions, on
    its beam search.
    """

    factor: float

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor:
        other = largest(state.log_probabilities, 1, without=state.eos)[0][:, 0]
        refused = ~(state.log_probabilities[:, state.eos] > self.factor * other)
        result = log_probabilities.clone()
        result[:, state.eos] = result[:, state.eos].masked_fill(refused, -inf)
        return result


@dataclass(frozen=True, slots=True)
class AttentionStop:
    """A hypothesis ends when its main attention has had its largest weight at the last source position for `steps`
    steps in a row, that of the next token included: only the end remains possible, with the model's log-probability.

    For sources that are read from left to right, as speech is. What may not end yet goes on.

    Args:
        steps: at least 1.
    """

    steps: int

    uses_weights = True

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor:
        if state.source is None:
            raise ConfigError("attention_stop needs to know the last position of a source: search(source=...).")
        assert state.peaks is not None
        assert state.weights is not None
        if state.peaks.shape[1] < self.steps:
            return log_probabilities
        positions = torch.arange(state.weights.shape[1], device=state.peaks.device)
        last = positions[-1:]
        if state.source.mask is not None:
            last = (positions * state.source.mask).amax(1)[state.sentences]
        ends = (state.peaks[:, -self.steps :] == last[:, None]).all(1) & state.may_end
        result = log_probabilities.masked_fill(ends[:, None], -inf)
        result[:, state.eos] = torch.where(ends, state.log_probabilities[:, state.eos], result[:, state.eos])
        return result
