"""Scores and alignments of given outputs by teacher forcing, and reranking with a second model or direction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard import tree
from regard.decoding.penalty import AbstractPenalty, Candidates, NoPenalty
from regard.decoding.result import Hypothesis
from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.models.contract import Decoder, Tree


def rescore(
    decoder: Decoder, memory: Tree, hypotheses: Sequence[Sequence[Hypothesis]], *, bos: int
) -> list[list[Hypothesis]]:
    """The same hypotheses with log-probabilities and alignments from `decoder.forward`.

    One pass is for the best hypothesis of every sentence, one for the second best, and so on, so that no source is
    tiled. Scores and stop reasons do not change.

    Args:
        memory: B rows.
        hypotheses: B lists.
    """
    _require_rows(memory, len(hypotheses), "hypotheses")
    results: list[list[Hypothesis]] = [[] for _ in hypotheses]
    for n in range(max(map(len, hypotheses), default=0)):
        sentences = [b for b, ranked in enumerate(hypotheses) if len(ranked) > n]
        index = torch.tensor(sentences, device=next(tree.leaves(memory)).device)
        chosen = [hypotheses[b][n] for b in sentences]
        forced = _force(decoder, tree.reorder(memory, index), [h.tokens for h in chosen], bos)
        for b, hypothesis, (costs, alignments) in zip(sentences, chosen, forced):
            total = float(costs.double().sum())
            results[b].append(
                replace(hypothesis, log_probability=total, token_log_probabilities=costs, alignments=alignments)
            )
    return results


def force_align(
    decoder: Decoder, memory: Tree, targets: Sequence[Tensor | Sequence[int]], *, bos: int, eos: int
) -> list[Hypothesis]:
    """The log-probabilities and alignments of given outputs.

    Args:
        memory: B rows.
        targets: B sequences of ids without bos; append eos to include its log-probability and alignment.

    Returns:
        A hypothesis per target, whose score is the log-probability; `stop_reason` is "eos" if the target ends with eos.

    Raises:
        RegardError: for an id outside the vocabulary.
    """
    _require_rows(memory, len(targets), "targets")
    if not targets:
        return []
    tokens = [torch.as_tensor(target, dtype=torch.long).cpu() for target in targets]
    results = []
    for target, (costs, alignments) in zip(tokens, _force(decoder, memory, tokens, bos)):
        total = float(costs.double().sum())
        ends = len(target) > 0 and int(target[-1]) == eos
        results.append(Hypothesis(target, total, total, "eos" if ends else "length", costs, alignments))
    return results


def _require_rows(memory: Tree, count: int, name: str) -> None:
    if tree.rows(memory) != count:
        raise ShapeError(
            f"{name} must have one item per sentence: memory has B={tree.rows(memory)} rows, {name} {count} items."
        )


def _force(
    decoder: Decoder, memory: Tree, targets: Sequence[Tensor], bos: int
) -> list[tuple[Tensor, dict[str, Tensor]]]:
    """Token log-probabilities (T,) and alignments (H, T, S) by name, of one target for each row of memory."""
    device = next(tree.leaves(memory)).device
    lengths = [len(target) for target in targets]
    padded = torch.full((len(targets), max(1, *lengths) + 1), bos, device=device)
    for row, target in zip(padded, targets):
        row[1 : len(target) + 1] = target.to(device)
    with torch.inference_mode():
        output = decoder.forward(padded[:, :-1], memory, alignment=True)
    log_probabilities = output.log_probabilities
    if log_probabilities is None:
        raise UnsupportedError("The decoder returns values, not tokens; only log-probabilities can be rescored.")
    num_tokens = log_probabilities.shape[2]
    for row, target in enumerate(targets):
        wrong = [i for i in target.tolist() if not 0 <= i < num_tokens]
        if wrong:
            raise RegardError(f"Target {row} has the id {wrong[0]}, but the decoder has N={num_tokens} tokens.")
    costs = log_probabilities.gather(2, padded[:, 1:, None])[..., 0].cpu()
    alignments = {name: weights.cpu() for name, weights in output.alignments.items()}
    return [
        (costs[m, :length].clone(), {name: weights[m, :, :length].clone() for name, weights in alignments.items()})
        for m, length in enumerate(lengths)
    ]


def rerank(
    hypotheses: Sequence[Sequence[Hypothesis]],
    rescored: Sequence[Sequence[Hypothesis]],
    *,
    weight: float = 0.5,
    penalty: AbstractPenalty | None = None,
    num_best: int | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of every sentence, ranked by (1 - λ) score + λ penalty(log p'), with p' of a second model.

    Tokens, log-probabilities and alignments remain those of the first model, and hypotheses that have ended come first.
    The second model may write from right to left, which finds early errors of the first:
    `rerank(hypotheses, rescore(second, memory, reverse(hypotheses), bos=bos))`.

    Args:
        hypotheses: B lists, from a search.
        rescored: the same hypotheses in the same order, with the second model's log-probabilities (`rescore`).
        weight: λ, from 0 (the first model's scores) to 1.
        penalty: the length penalty of the search, applied to both terms alike; none if None.
        num_best: the number of hypotheses kept per sentence; all if None.

    Raises:
        ConfigError: for a weight outside [0, 1].
        ShapeError: for lists of different lengths.

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
        raise ShapeError("hypotheses and rescored must have the same lengths: every hypothesis needs a second score.")
    penalty = NoPenalty() if penalty is None else penalty
    results = []
    for ranked, others in zip(hypotheses, rescored):
        scored = [
            replace(hypothesis, score=(1 - weight) * hypothesis.score + weight * _score(other, penalty))
            for hypothesis, other in zip(ranked, others)
        ]
        results.append(_ranked(scored)[:num_best])
    return results


def _score(hypothesis: Hypothesis, penalty: AbstractPenalty) -> float:
    total = torch.tensor(hypothesis.log_probability, dtype=torch.float64)
    return float(penalty.score(Candidates(total, len(hypothesis.tokens), hypothesis.stop_reason == "eos")))


def _ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda h: (h.stop_reason != "eos", -h.score))


def reverse(hypotheses: Sequence[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
    """The hypotheses with their tokens in reverse order, except the end of sentence, which remains last.

    Log-probabilities of tokens and rows of alignments are reversed with them.

    >>> h = Hypothesis(torch.tensor([5, 6, 7, 2]), -1.0, -1.0, "eos", torch.tensor([-0.1, -0.2, -0.3, -0.4]))
    >>> reverse([[h]])[0][0].tokens
    tensor([7, 6, 5, 2])
    """
    return [[reverse_tokens(hypothesis) for hypothesis in ranked] for ranked in hypotheses]


def reverse_tokens(hypothesis: Hypothesis) -> Hypothesis:
    """`reverse` of a single hypothesis."""
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
    """The hypotheses of two searches in opposite directions, ranked by the sum of their scores in both directions.

    The score in the other direction comes from a teacher-forced pass over the same tokens, with the same penalty.
    Tokens are returned in reading order; log-probabilities and alignments are those of the search that produced the
    hypothesis. Of equal hypotheses the one with the higher score is kept, and hypotheses that have ended come first.

    Args:
        left_to_right, right_to_left: B lists each, in the order of writing, with the end symbol last.
        decoder: has learned both directions, which differ in the begin symbol.
        memory: B rows.
        bos: the begin symbols of left to right and of right to left.
        penalty: the length penalty of the searches; none if None.
        num_best: the number of hypotheses kept per sentence; all if None.

    Raises:
        ShapeError: for lists of different numbers of sentences.

    Source: Zhao et al. 2021, Handwritten Mathematical Expression Recognition with Bidirectionally Trained Transformer
    (arXiv 2105.02412), section 3.4; two models: Liu et al. 2016, Agreement on Target-bidirectional Neural Machine
    Translation (https://aclanthology.org/N16-1046).
    """
    if len(left_to_right) != len(right_to_left):
        raise ShapeError(
            f"Both searches must have the same sentences: {len(left_to_right)} from left to right, "
            f"{len(right_to_left)} from right to left."
        )
    penalty = NoPenalty() if penalty is None else penalty
    read = reverse(right_to_left)
    forward = zip(left_to_right, rescore(decoder, memory, reverse(left_to_right), bos=bos[1]), strict=True)
    backward = zip(read, rescore(decoder, memory, read, bos=bos[0]), strict=True)
    results = []
    for pairs in zip(forward, backward, strict=True):
        best: dict[tuple[int, ...], Hypothesis] = {}
        for hypotheses, others in pairs:
            for hypothesis, other in zip(hypotheses, others, strict=True):
                joined = replace(hypothesis, score=hypothesis.score + _score(other, penalty))
                key = tuple(hypothesis.tokens.tolist())
                if key not in best or joined.score > best[key].score:
                    best[key] = joined
        results.append(_ranked(best.values())[:num_best])
    return results
