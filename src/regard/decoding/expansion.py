"""The next beam of a search in which finished hypotheses keep their places: one step, as a function of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.decoding.penalty import AbstractPenalty, Candidates
from regard.ops import largest


@dataclass(frozen=True, slots=True)
class Expansion:
    """The next beam, (B, K) each, best first.

    Args:
        scores: by which it is ranked; -inf: there is no such hypothesis.
        totals: log-probabilities.
        tokens: the token that each adds; the end symbol again, if it had finished.
        parents: which hypotheses they extend, their places in the beam before.
        finished: bool.
        lengths: long; the end symbol is one token.
    """

    scores: Tensor
    totals: Tensor
    tokens: Tensor
    parents: Tensor
    finished: Tensor
    lengths: Tensor


def expand(
    log_probabilities: Tensor,
    totals: Tensor,
    finished: Tensor,
    lengths: Tensor,
    penalty: AbstractPenalty,
    *,
    width: int,
    eos: int,
    weights: Tensor | None = None,
    mask: Tensor | None = None,
    impossible: float = -inf,
) -> Expansion:
    """The `width` best of all hypotheses that have finished and all continuations of the others.

    A finished hypothesis goes on with the end symbol, which costs nothing. All are ranked by the penalty with `lengths`
    as they become, in which the end symbol is not counted at the step that it is chosen, and with the weights up to
    this step. A hypothesis counts as ended if it had finished before.

    Of each hypothesis only its `width` most probable tokens and its end are candidates: a score increases with the
    log-probability, and these have one length. `all_scores` has the scores of the others.

    Args:
        log_probabilities: (B, K, N), of the next token; those of finished hypotheses are not used.
        totals: (B, K), the log-probabilities so far; -inf: there is no such hypothesis.
        finished: (B, K) bool.
        lengths: (B, K) long, tokens so far, with the end symbol.
        penalty: ranks; it gets lengths, log-probabilities and `ended` of (B, K, C) candidates and weights (B, K, 1, S).
        width: of the next beam.
        eos: the end symbol.
        weights: (B, K, S), `accumulated` attention, for penalties that read it.
        mask: (B, 1, S) bool, real source positions; all if None.
        impossible: what any other token costs a finished hypothesis.

    Source: tensorflow-addons 0.23, `BeamSearchDecoder`, where `impossible` is the least finite number.

    >>> from regard.decoding.penalty import NoPenalty
    >>> said = torch.tensor([[[0.5, 0.4, 0.1], [0.2, 0.2, 0.6]]]).log()
    >>> totals = torch.tensor([[0.6, 0.4]]).log()
    >>> beam = expand(said, totals, torch.tensor([[False, True]]), torch.tensor([[1, 1]]), NoPenalty(), width=2, eos=2)
    >>> beam.tokens, beam.parents, beam.lengths
    (tensor([[2, 0]]), tensor([[1, 0]]), tensor([[1, 2]]))
    """
    num_tokens = log_probabilities.shape[-1]
    shape = totals.shape
    count = max(min(width, num_tokens - 1), 1)
    values, tokens = largest(log_probabilities.flatten(0, 1), count, without=eos)
    values, tokens = values.view(*shape, -1), tokens.view(*shape, -1)
    others = torch.arange(tokens.shape[-1], device=tokens.device)
    others = (others + (others >= eos)).clamp_(max=num_tokens - 1)
    over = finished[..., None]
    values, tokens = values.masked_fill(over, impossible), torch.where(over, others, tokens)
    ends = log_probabilities[..., eos].masked_fill(finished, 0)
    candidates = totals[..., None] + torch.cat([values, ends[..., None]], 2)
    candidates = candidates.masked_fill((totals == -inf)[..., None], -inf)
    longer = lengths[..., None].expand_as(candidates).clone()
    longer[..., :-1] += ~over
    tokens = torch.cat([tokens, torch.full_like(tokens[..., :1], eos)], 2)

    scores = penalty.score(_candidates(candidates, longer, over, weights, mask))
    scores, places = largest(_widened(scores.flatten(1), width), width)
    places = places.clamp(max=candidates[0].numel() - 1)
    chosen = candidates.flatten(1).gather(1, places).masked_fill(scores == -inf, -inf)
    parents = places.div(candidates.shape[2], rounding_mode="floor")
    tokens, had_finished = tokens.flatten(1).gather(1, places), finished.gather(1, parents)
    return Expansion(
        scores,
        chosen,
        tokens,
        parents,
        had_finished | (tokens == eos),
        lengths.gather(1, parents) + ~had_finished,
    )


def all_scores(
    log_probabilities: Tensor,
    totals: Tensor,
    finished: Tensor,
    lengths: Tensor,
    penalty: AbstractPenalty,
    *,
    eos: int,
    weights: Tensor | None = None,
    mask: Tensor | None = None,
    impossible: float = -inf,
) -> Tensor:
    """The scores of every token of every hypothesis, (B, K, N), of which `expand` takes the largest.

    Args: as in `expand`.
    """
    over = finished[..., None]
    is_end = torch.arange(log_probabilities.shape[-1], device=totals.device) == eos
    values = torch.where(over, torch.where(is_end, 0.0, impossible).to(totals), log_probabilities)
    candidates = totals[..., None] + values
    return penalty.score(_candidates(candidates, lengths[..., None] + (~is_end & ~over), over, weights, mask))


def accumulated(weights: Tensor, alignment: Tensor, finished: Tensor | None = None) -> Tensor:
    """The weights (..., S) of all steps together, to which finished hypotheses (...) add nothing more.

    >>> accumulated(torch.ones(2, 1), torch.ones(2, 1), torch.tensor([False, True]))
    tensor([[2.],
            [1.]])
    """
    return weights + (alignment if finished is None else alignment.masked_fill(finished[..., None], 0))


def _candidates(
    totals: Tensor, lengths: Tensor, over: Tensor, weights: Tensor | None, mask: Tensor | None
) -> Candidates:
    """Continuations (B, K, C) of hypotheses, of whose weights there is one row each."""
    return Candidates(
        totals,
        lengths,
        over,
        None if weights is None else weights[:, :, None],
        None if mask is None or weights is None else mask[:, :, None],
    )


def _widened(scores: Tensor, width: int) -> Tensor:
    return scores if scores.shape[1] >= width else pad(scores, (0, width - scores.shape[1]), value=-inf)
