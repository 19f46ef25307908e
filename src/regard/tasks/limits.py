"""How long an output may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config.schema import DecodingConfig
from regard.decoding import AbstractPenalty, Hypothesis, NoPenalty, Sampling, Search

SPARE = 10
"""Symbols that an output may have beyond its multiple of the input's."""


def symbol_limits(decoding: DecodingConfig, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The most symbols of each output, the end symbol not counted, for inputs of so many symbols."""
    if decoding.max_length is not None:
        return np.full_like(lengths, decoding.max_length)
    return (lengths * decoding.max_length_ratio).astype(np.int64) + SPARE


def within(hypotheses: Sequence[Hypothesis], limit: int, options: Search | Sampling) -> list[Hypothesis]:
    """Hypotheses of at most so many symbols, best first.

    A search has room for `limit` symbols and their end. One that has not ended there holds a symbol too many, which
    is cut off. Of a search, those that are the same then are one, and finished ones stay in front. All samples are
    kept.
    """
    penalty = options.penalty if isinstance(options, Search) else NoPenalty()
    whole = [one for one in hypotheses if one.stop_reason == "eos" or len(one.tokens) <= limit]
    cut = [_cut(one, limit, penalty) for one in hypotheses if one.stop_reason == "length" and len(one.tokens) > limit]
    if isinstance(options, Sampling):
        return sorted(whole + cut, key=lambda one: -one.score)
    distinct = {tuple(one.tokens.tolist()): one for one in reversed(cut)}
    return whole + sorted(distinct.values(), key=lambda one: -one.score)


def _cut(one: Hypothesis, limit: int, penalty: AbstractPenalty) -> Hypothesis:
    total = one.log_probability - float(one.token_log_probabilities[limit:].sum())
    return replace(
        one,
        tokens=one.tokens[:limit],
        log_probability=total,
        score=float(penalty.score(torch.tensor(total, dtype=torch.float64), limit)),
        token_log_probabilities=one.token_log_probabilities[:limit],
        alignments={name: weights[:, :limit] for name, weights in one.alignments.items()},
    )
