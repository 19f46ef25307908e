"""Processors, which change the log-probabilities of the next token."""

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

    Tensors of sentences have B rows, in the order of the batch: the source ids of each row are
    `state.source.ids[state.sentences]`.

    Args:
        tokens: (R, t), the tokens so far, without bos.
        log_probabilities: (R, N), those of the model, before any processor.
        sentences: (R,), the index of each row's sentence in the batch.
        ended: (R,) bool, hypotheses that have ended or become impossible; their next token is not used.
        may_end: (R,) bool, False before the minimum length and while required phrases are missing.
        eos: the id that ends a hypothesis.
        items: (B,), as in `search`.
        source: as in `search`.
        weights: (R, S), the decoder's main attention (mean of heads) summed over the steps so far, including that of
            the next token. None if no processor or penalty has `uses_weights`.
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
        """The number of the next token, from 1."""
        return self.tokens.shape[1] + 1


class Processor(Protocol):
    """Any callable from (R, N) log-probabilities and the `SearchState` to new log-probabilities.

    It changes which tokens are chosen and how hypotheses are ranked, but not `Hypothesis.log_probability`. It must
    return a new tensor, whose values do not exceed 0, otherwise a beam may stop too early. A processor that sets
    `uses_weights = True` gets the weights and peaks of the attention.
    """

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor: ...


def uses_weights(reader: object) -> bool:
    """Whether a processor or penalty reads the weights of the attention."""
    return bool(getattr(reader, "uses_weights", False))


def process(log_probabilities: Tensor, state: SearchState, processors: Sequence[Processor]) -> Tensor:
    """Applies the processors in order."""
    result = log_probabilities
    for processor in processors:
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

    Keskar et al. divide the logits of such tokens by θ. That increases negative logits, so that repetition becomes more
    probable, and depends on a constant that may be added to all logits without changing the model. Log-probabilities
    are at most 0, so a factor θ ≥ 1 lowers all of them.

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

    With γ above 1 the end may be less probable than the best continuation, within a bound, so a beam that admits the
    end at every step does not cut outputs short.

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
    steps in a row, including that of the next token: only the end remains possible, with the model's log-probability.

    For sources that are read from left to right, such as speech. A hypothesis that may not end yet continues.

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
        last = last_positions(state.source, state.weights, state.sentences)
        ends = (state.peaks[:, -self.steps :] == last[:, None]).all(1) & state.may_end
        result = log_probabilities.masked_fill(ends[:, None], -inf)
        result[:, state.eos] = torch.where(ends, state.log_probabilities[:, state.eos], result[:, state.eos])
        return result


def last_positions(source: SearchSource | None, weights: Tensor, rows: Tensor) -> Tensor:
    """The last real source position of each row, (R,), or of all, (1,), for attention weights (R, S)."""
    positions = torch.arange(weights.shape[1], device=weights.device)
    return positions[-1:] if source is None or source.mask is None else (positions * source.mask[rows]).amax(1)
