"""Reranking: hypotheses of one model in the order that a second model helps to decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from regard.decoding.penalty import AbstractPenalty, Candidates, NoPenalty
from regard.decoding.result import Hypothesis
from regard.errors import ConfigError, ShapeError


def rerank(
    hypotheses: Sequence[Sequence[Hypothesis]],
    rescored: Sequence[Sequence[Hypothesis]],
    *,
    weight: float = 0.5,
    penalty: AbstractPenalty | None = None,
    num_best: int | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of every sentence by (1 - λ) score + λ penalty(log p'), where p' is the second model's.

    Tokens, log-probabilities and alignments stay those of the first model; hypotheses that have ended stay ahead of
    others. A model that writes from right to left judges endings by what precedes them, and so finds errors that the
    first one made early: `rerank(found, rescore(second, memory, reverse(found), bos=bos))`.

    Args:
        hypotheses: B lists, of a search.
        rescored: the same hypotheses as the second model scores them, in the same order: `rescore` returns them.
        weight: λ, from 0 (the scores as they are) to 1.
        penalty: the length penalty of the search, so that both terms are of one kind; none if None.
        num_best: how many of each sentence are kept; all if None.

    Raises:
        ConfigError: for a weight outside [0, 1].
        ShapeError: for lists of other lengths.

    Source: Liu et al. 2016, Agreement on Target-bidirectional Neural Machine Translation
    (https://aclanthology.org/N16-1046), and Sennrich et al. 2016, Edinburgh Neural Machine Translation Systems for WMT
    16 (arXiv 1606.02891), section 5.

    >>> first = [Hypothesis(torch.tensor([1, 2]), -1.0, -1.0, "eos", torch.tensor([-0.4, -0.6])),
    ...          Hypothesis(torch.tensor([3, 2]), -1.5, -1.5, "eos", torch.tensor([-0.9, -0.6]))]
    >>> second = [replace(first[0], log_probability=-4.0), replace(first[1], log_probability=-2.0)]
    >>> rerank([first], [second])
    [[Hypothesis([3, 2], score=-1.7500, log_probability=-1.5000, stop_reason='eos'), \
Hypothesis([1, 2], score=-2.5000, log_probability=-1.0000, stop_reason='eos')]]
    """
    if not 0 <= weight <= 1:
        raise ConfigError(f"weight={weight}: expected a number from 0 to 1, the second model's share of the score.")
    if [len(ranked) for ranked in hypotheses] != [len(ranked) for ranked in rescored]:
        raise ShapeError("Every hypothesis needs the score of the second model: give lists of the same lengths.")
    penalty = NoPenalty() if penalty is None else penalty
    results = []
    for ranked, others in zip(hypotheses, rescored):
        scored = []
        for hypothesis, other in zip(ranked, others):
            total = torch.tensor(other.log_probability, dtype=torch.float64)
            second = float(penalty.score(Candidates(total, len(other.tokens), other.stop_reason == "eos")))
            scored.append(replace(hypothesis, score=(1 - weight) * hypothesis.score + weight * second))
        results.append(sorted(scored, key=lambda h: (h.stop_reason != "eos", -h.score))[:num_best])
    return results


def reverse(hypotheses: Sequence[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
    """The hypotheses with their tokens in the opposite order, the end of sentence still last.

    What belongs to tokens, their log-probabilities and the rows of alignments, follows them.

    >>> h = Hypothesis(torch.tensor([5, 6, 7, 2]), -1.0, -1.0, "eos", torch.tensor([-0.1, -0.2, -0.3, -0.4]))
    >>> reverse([[h]])[0][0].tokens
    tensor([7, 6, 5, 2])
    """
    return [[reverse_tokens(hypothesis) for hypothesis in ranked] for ranked in hypotheses]


def reverse_tokens(hypothesis: Hypothesis) -> Hypothesis:
    """One of the hypotheses of `reverse`."""
    count = len(hypothesis.tokens)
    last = count - 1 if hypothesis.stop_reason == "eos" else count
    order = torch.cat([torch.arange(last - 1, -1, -1), torch.arange(last, count)])
    return replace(
        hypothesis,
        tokens=hypothesis.tokens[order],
        token_log_probabilities=hypothesis.token_log_probabilities[order],
        alignments={name: weights[:, order] for name, weights in hypothesis.alignments.items()},
        auxiliary={name: values[order] for name, values in hypothesis.auxiliary.items()},
    )
