"""Beam search in which finished hypotheses keep their places in the beam."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from regard import tree
from regard.config.search import Search
from regard.decoding.history import ROOT
from regard.decoding.live_beam import AbstractSearch, LiveBeam, widened
from regard.decoding.penalty import AbstractPenalty, Candidates
from regard.decoding.request import Request, Steps
from regard.decoding.rules import rules_of
from regard.ops import largest


def kept_steps(request: Request, options: Search) -> Steps:
    """Beam search with `keep_finished`.

    At each step the beam consists of the best of all finished hypotheses and all continuations of the others
    (`expand`). A sentence is over when its whole beam has finished, or at its maximum length; its results are the last
    beam by its last scores, unfinished hypotheses included, and do not depend on its batch. (tensorflow-addons ranks a
    finished beam again as long as any sentence of the batch continues, at lengths that count the end symbol.)

    If every hypothesis has become impossible, the beam of the step before is returned.
    """
    if tree.rows(request.memory) == 0:
        return list
    search = _KeepFinished(request, options)
    return (yield from request.watched(search).run(search.initial_state()))


@dataclass(frozen=True, slots=True)
class _Beam:
    """The beams (B, K) of B sentences.

    Args:
        scores, totals, lengths: as in `Expansion`.
        finished: bool, hypotheses that have ended or do not exist.
        before: scores, last nodes and which had ended, of the step before.
    """

    scores: Tensor
    totals: Tensor
    lengths: Tensor
    finished: Tensor
    before: tuple[Tensor, Tensor, Tensor]


class _KeepFinished(AbstractSearch[_Beam]):
    def __init__(self, request: Request, options: Search) -> None:
        needs = "a beam whose places are shared among phrases; with keep_finished they are not"
        rules = rules_of(request, options, no_include=needs)
        self.penalty, self.eos, self.num_returned = rules.penalty, request.eos, options.num_best
        self.width = options.beam
        self.live_beam = LiveBeam(request, options, rules, width=options.beam, begins_alike=True)

    def initial_state(self) -> _Beam:
        live = self.live_beam
        totals = torch.full(live.nodes.shape, -inf, dtype=live.precision, device=live.nodes.device)
        totals[:, 0] = 0
        finished = totals == -inf
        return _Beam(totals, totals, torch.zeros_like(live.nodes), finished, (totals, live.nodes, finished))

    def step(self, state: _Beam) -> tuple[_Beam, Tensor, Tensor]:
        live, totals, finished = self.live_beam, state.totals, state.finished
        live.finished = finished.flatten()
        log_probabilities = live.advance()
        processed = live.next_token(log_probabilities, finished)
        beams = expand(
            processed.view(*totals.shape, -1),
            totals,
            finished,
            state.lengths,
            self.penalty,
            width=self.width,
            eos=self.eos,
            weights=None if live.weights is None else live.weights.view(*totals.shape, -1),
            mask=live.mask,
        )
        parents = beams.parents + torch.arange(0, totals.numel(), totals.shape[1], device=totals.device)[:, None]
        before, had_finished = live.nodes.flatten()[parents], finished.flatten()[parents]
        grown = live.grow(before, beams.tokens, log_probabilities[parents, beams.tokens], parents)
        earlier = state.scores, live.nodes, finished & (totals > -inf)
        ended = beams.finished | (beams.scores == -inf)
        over = ended.all(1) | (live.remaining <= live.step)
        live.move(parents, beams.tokens, torch.where(had_finished, before, grown))
        return _Beam(beams.scores, beams.totals, beams.lengths, ended, earlier), over, beams.scores

    def results(self, state: _Beam) -> tuple[Tensor, Tensor, Tensor]:
        """As of `AbstractSearch`; those of the step before if no hypothesis is possible."""
        now = state.scores, self.live_beam.nodes, state.finished & (state.scores > -inf)
        stranded, width = state.scores[:, :1] == -inf, state.scores.shape[1]
        before = (widened(x, width, value) for x, value in zip(state.before, (-inf, ROOT, False), strict=True))
        scores, nodes, ended = (torch.where(stranded, *pair)[:, None] for pair in zip(before, now, strict=True))
        return scores, nodes, ended

    def possible(self, state: _Beam) -> tuple[Tensor, Tensor]:
        return self.live_beam.nodes, state.totals > -inf


@dataclass(frozen=True, slots=True)
class Expansion:
    """The next beam, (B, K) each, best first.

    Args:
        scores: with penalty; -inf if there is no hypothesis.
        totals: log-probabilities.
        tokens: the token that each adds; for finished hypotheses the end symbol again.
        parents: the places of their parents in the beam before.
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
    """The `width` best of all finished hypotheses and all continuations of the others: one step of the search.

    A finished hypothesis continues with the end symbol at no cost. The penalty ranks all by their new lengths, in which
    the end symbol is not yet counted at the step that chooses it, and by the weights up to this step. A hypothesis
    counts as ended if it had finished before.

    Of each hypothesis only its `width` most probable tokens and its end are candidates, because scores increase with
    the log-probability and the tokens of one hypothesis give one length. `all_scores` has the scores of all tokens.

    Args:
        log_probabilities: (B, K, N), of the next token; those of finished hypotheses are not used.
        totals: (B, K), the log-probabilities so far; -inf if there is no hypothesis.
        finished: (B, K) bool.
        lengths: (B, K) long, tokens so far, including the end symbol.
        penalty: gets lengths, log-probabilities and `ended` of (B, K, C) candidates, and weights (B, K, 1, S).
        width: of the next beam.
        eos: the end symbol.
        weights: (B, K, S), `accumulated` attention, for penalties that read it.
        mask: (B, 1, S) bool, real source positions; all if None.
        impossible: the log-probability of any other token after the end symbol.

    Source: tensorflow-addons 0.23, `BeamSearchDecoder`, where `impossible` is the least finite number.

    >>> from regard.decoding.penalty import NoPenalty
    >>> following = torch.tensor([[[0.5, 0.4, 0.1], [0.2, 0.2, 0.6]]]).log()
    >>> totals, finished = torch.tensor([[0.6, 0.4]]).log(), torch.tensor([[False, True]])
    >>> beam = expand(following, totals, finished, torch.tensor([[1, 1]]), NoPenalty(), width=2, eos=2)
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
    scores, places = largest(widened(scores.flatten(1), width, -inf), width)
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
    """The scores of every token of every hypothesis, (B, K, N), of which `expand` takes the largest."""
    over = finished[..., None]
    is_end = torch.arange(log_probabilities.shape[-1], device=totals.device) == eos
    values = torch.where(over, torch.where(is_end, 0.0, impossible).to(totals), log_probabilities)
    candidates = totals[..., None] + values
    return penalty.score(_candidates(candidates, lengths[..., None] + (~is_end & ~over), over, weights, mask))


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
