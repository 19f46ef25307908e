"""Greedy search, and the extension of hypotheses that do not compete with each other, which samples share with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from regard import tree
from regard.config.search import Search
from regard.decoding.live_beam import AbstractSearch, LiveBeam, widened
from regard.decoding.penalty import Candidates
from regard.decoding.processor import uses_weights
from regard.decoding.request import Request, Steps
from regard.decoding.rules import SearchRules, rules_of
from regard.ops import largest


def greedy_steps(request: Request, options: Search) -> Steps:
    """Takes the most probable token at every step, the lower id among equals; one hypothesis per sentence."""
    needs = "a beam of at least 2; greedy search (beam 1) has only one hypothesis"
    rules = rules_of(request, options, no_include=needs)
    return roll_out(request, options, rules, lambda log_probabilities, _: largest(log_probabilities, 1)[1], width=1)


def roll_out(
    request: Request,
    options: Search,
    rules: SearchRules,
    choose: Callable[[Tensor, LiveBeam], Tensor],
    *,
    width: int,
    generator: Generator | None = None,
) -> Steps:
    """`width` hypotheses per sentence, best first; `choose` selects tokens (R,) from log-probabilities (R, N).

    Row r is hypothesis r % width of sentence `live_beam.sentences[r // width]`, the same at every step. A hypothesis
    for which every token is impossible stops, with `stop_reason` "length". If streaming, `width` is 1.
    """
    if tree.rows(request.memory) == 0:
        return list
    live_beam = LiveBeam(request, options, rules, width=width, generator=generator)
    nodes = live_beam.nodes
    totals = torch.zeros(nodes.shape, dtype=live_beam.precision, device=nodes.device)
    going = torch.ones_like(nodes, dtype=torch.bool)
    state = _Hypotheses(totals, torch.zeros_like(nodes), going, ~going)
    return (yield from request.watched(_RollOut(live_beam, rules, choose)).run(state))


@dataclass(frozen=True, slots=True)
class _Hypotheses:
    """Hypotheses (B, K) of B sentences.

    Args:
        totals: log-probabilities.
        going: bool, unfinished hypotheses; the others keep their values.
        ended: bool, those that have reached the end of sentence.
        weights: (B, K, S), accumulated attention, for a penalty that reads it.
    """

    totals: Tensor
    lengths: Tensor
    going: Tensor
    ended: Tensor
    weights: Tensor | None = None


class _RollOut(AbstractSearch[_Hypotheses]):
    is_frozen = True

    def __init__(self, live_beam: LiveBeam, rules: SearchRules, choose: Callable[[Tensor, LiveBeam], Tensor]) -> None:
        self.live_beam, self.penalty, self.choose = live_beam, rules.penalty, choose
        self.num_returned = live_beam.width

    def step(self, state: _Hypotheses) -> tuple[_Hypotheses, Tensor, Tensor]:
        live, last, stopped = self.live_beam, self.live_beam.nodes, ~state.going
        log_probabilities = live.advance()
        processed = live.next_token(log_probabilities, stopped)
        tokens = self.choose(processed, live).view_as(last)
        rows = torch.arange(tokens.numel(), device=tokens.device).view_as(tokens)
        values = processed[rows, tokens].masked_fill(stopped, 0.0)
        going = state.going & (values > -torch.inf)
        last = torch.where(going, live.grow(last, tokens, log_probabilities[rows, tokens], rows), last)
        totals, lengths = torch.where(going, state.totals + values, state.totals), state.lengths + going
        weights = state.weights
        if uses_weights(self.penalty) and live.weights is not None:
            now = live.weights.view(*going.shape, -1)
            before = now.new_zeros(*going.shape, 0) if weights is None else weights
            weights = torch.where(going[..., None], now, widened(before, now.shape[-1], 0.0))
        finished = going & (tokens == live.eos)
        going = going & ~finished & (live.step < live.remaining)[:, None]
        live.move(None, tokens, last)
        return _Hypotheses(totals, lengths, going, state.ended | finished, weights), ~going.any(1), values

    def results(self, state: _Hypotheses) -> tuple[Tensor, Tensor, Tensor]:
        mask = None if state.weights is None else self.live_beam.mask
        candidates = Candidates(state.totals, state.lengths, state.ended, state.weights, mask)
        scores, order = self.penalty.score(candidates).sort(dim=1, descending=True, stable=True)
        return scores[:, None], self.live_beam.nodes.gather(1, order)[:, None], state.ended.gather(1, order)[:, None]

    def possible(self, state: _Hypotheses) -> tuple[Tensor, Tensor]:
        return self.live_beam.nodes, torch.ones_like(state.going)
