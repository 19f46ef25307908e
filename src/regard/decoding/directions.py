"""Hypotheses of searches in both directions, which the other direction scores as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from regard.decoding.penalty import AbstractPenalty, Candidates, NoPenalty
from regard.decoding.rescore import rescore, reverse
from regard.decoding.result import Hypothesis
from regard.errors import ShapeError
from regard.models.contract import Decoder, Tree


def join_directions(
    left_to_right: Sequence[Sequence[Hypothesis]],
    right_to_left: Sequence[Sequence[Hypothesis]],
    decoder: Decoder,
    memory: Tree,
    *,
    bos: tuple[int, int],
    penalty: AbstractPenalty | None = None,
    num_best: int | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of both searches of every sentence by the sum of their scores in both directions.

    The score that a search has found is added to that which the other direction gives the same tokens in a
    teacher-forced pass, with the same penalty. So an output ranks first that is probable from its beginning and from
    its end. Tokens are returned in the order in which they are read; log-probabilities and alignments are those of the
    search that found them. Of equal hypotheses the higher one is kept, and those that have ended stay ahead of others.

    Args:
        left_to_right, right_to_left: B lists each, in the order in which they were written, with the end symbol last.
        decoder: has learned both directions, which differ in the begin symbol.
        memory: B rows.
        bos: the begin symbols of left to right and of right to left.
        penalty: the length penalty of the searches; none if None.
        num_best: how many of each sentence are kept; all if None.

    Raises:
        ShapeError: for lists of different numbers of sentences.

    Source: Zhao et al. 2021, Handwritten Mathematical Expression Recognition with Bidirectionally Trained Transformer
    (arXiv 2105.02412), section 3.4; two models: Liu et al. 2016, Agreement on Target-bidirectional Neural Machine
    Translation (https://aclanthology.org/N16-1046).
    """
    if len(left_to_right) != len(right_to_left):
        raise ShapeError(
            f"Both searches must be of the same sentences; {len(left_to_right)} from left to right, "
            f"{len(right_to_left)} from right to left."
        )
    penalty = NoPenalty() if penalty is None else penalty
    read = reverse(right_to_left)
    forward = zip(left_to_right, rescore(decoder, memory, reverse(left_to_right), bos=bos[1]), strict=True)
    backward = zip(read, rescore(decoder, memory, read, bos=bos[0]), strict=True)
    results = []
    for pairs in zip(forward, backward, strict=True):
        kept: dict[tuple[int, ...], Hypothesis] = {}
        for found, others in pairs:
            for hypothesis, other in zip(found, others, strict=True):
                total = torch.tensor(other.log_probability, dtype=torch.float64)
                further = penalty.score(Candidates(total, len(other.tokens), other.stop_reason == "eos"))
                joined = replace(hypothesis, score=hypothesis.score + float(further))
                key = tuple(hypothesis.tokens.tolist())
                if key not in kept or joined.score > kept[key].score:
                    kept[key] = joined
        results.append(sorted(kept.values(), key=lambda h: (h.stop_reason != "eos", -h.score))[:num_best])
    return results
