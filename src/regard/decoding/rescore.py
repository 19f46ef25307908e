"""Teacher-forced passes over given tokens: to check a search, to score with another model, or to align."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard import tree
from regard.decoding.result import Hypothesis
from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.models.contract import Decoder, Tree


def rescore(
    decoder: Decoder, memory: Tree, hypotheses: Sequence[Sequence[Hypothesis]], *, bos: int
) -> list[list[Hypothesis]]:
    """The same hypotheses with log-probabilities and alignments from `decoder.forward`.

    There is a pass for the best hypothesis of every sentence, one for the second best, and so on, so that no source is
    tiled. Scores and stop reasons stay those of the search.

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
        targets: B sequences of ids without bos. Append eos to get its log-probability and alignment, too.

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
            f"{name} must hold one item per sentence: memory has B={tree.rows(memory)} rows, {name} {count}."
        )


def _force(
    decoder: Decoder, memory: Tree, targets: Sequence[Tensor], bos: int
) -> list[tuple[Tensor, dict[str, Tensor]]]:
    """Token log-probabilities (T,) and alignments (H, T, S) by name, of a target for each row of memory."""
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
