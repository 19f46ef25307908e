"""Processors about the end of sentence."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from regard.decoding.processor import SearchState
from regard.errors import ConfigError
from regard.ops import largest


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
