"""The greatest length of an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.config.search import Search
from regard.decoding import AbstractPenalty, Candidates, Hypothesis, NoPenalty, penalty_of

EXTRA_SYMBOLS = 10
"""Symbols that an output may have in addition to what its input, or its constraints, lead to expect."""


def within(
    hypotheses: Sequence[Hypothesis], limit: int, options: Search, weights: Callable[[Hypothesis], Tensor]
) -> list[Hypothesis]:
    """Hypotheses of at most `limit` symbols, best first.

    Args:
        weights: the sums of a hypothesis's main attention, (S,), if the penalty reads them.

    A search has room for `limit` symbols and the end symbol. A hypothesis that has not ended there has one symbol too
    many, which is cut off; its score then has no processors, only the penalty. Of the hypotheses of a search that are
    then equal only one is kept, and finished ones stay in front. All samples are kept. Those that minimum Bayes risk
    has chosen keep their order and their scores.
    """
    penalty = penalty_of(options) if options.method == "beam" else NoPenalty()
    too_long = [h for h in hypotheses if h.stop_reason == "length" and len(h.tokens) > limit]
    whole = [h for h in hypotheses if h.stop_reason == "eos" or len(h.tokens) <= limit]
    cut = [_cut(hypothesis, limit, penalty, weights) for hypothesis in too_long]
    if options.method == "mbr":
        scored = sorted([*whole, *(replace(c, score=h.score) for c, h in zip(cut, too_long))], key=lambda h: -h.score)
        kept = {tuple(hypothesis.tokens.tolist()): hypothesis for hypothesis in reversed(scored)}
        return sorted(kept.values(), key=lambda h: -h.score)
    if options.method == "sampling":
        return sorted(whole + cut, key=lambda hypothesis: -hypothesis.score)
    distinct = {tuple(hypothesis.tokens.tolist()): hypothesis for hypothesis in reversed(cut)}
    return whole + sorted(distinct.values(), key=lambda hypothesis: -hypothesis.score)


def _cut(
    hypothesis: Hypothesis, limit: int, penalty: AbstractPenalty, weights: Callable[[Hypothesis], Tensor]
) -> Hypothesis:
    total = hypothesis.log_probability - float(hypothesis.token_log_probabilities[limit:].sum())
    cut = replace(
        hypothesis,
        tokens=hypothesis.tokens[:limit],
        log_probability=total,
        token_log_probabilities=hypothesis.token_log_probabilities[:limit],
        alignments={name: rows[:, :limit] for name, rows in hypothesis.alignments.items()},
        auxiliary={name: values[:limit] for name, values in hypothesis.auxiliary.items()},
    )
    coverage = weights(cut) if penalty.uses_weights else None
    ranked = Candidates(torch.tensor(total, dtype=torch.float64), limit, ended=False, weights=coverage)
    return replace(cut, score=float(penalty.score(ranked)))
