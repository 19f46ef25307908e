"""Hypotheses that each go on by themselves, whatever chooses their tokens; greedy search, which takes the best."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Generator, Tensor

from regard import tree
from regard.config.search import Search
from regard.decoding.constraint import checked
from regard.decoding.live_beam import LiveBeam, length_limits, widened
from regard.decoding.options import processors_of
from regard.decoding.penalty import AbstractPenalty, Candidates, penalty_of, require_source
from regard.decoding.processor import Processor, process, uses_weights
from regard.decoding.recorded import constant_of
from regard.decoding.request import Ended, Request, SearchProgress, Steps
from regard.decoding.result import Hypothesis, StopReason
from regard.ops import largest
from regard.ops.over_steps import Storage


@dataclass(frozen=True, slots=True)
class _Rolled:
    """Hypotheses (B, K) of B sentences, whose tokens so far have these log-probabilities in all.

    Args:
        going: bool, which go on; the others keep their values.
        ended: bool, which have reached the end of sentence.
        remaining: (B,), the largest number of tokens.
        over: as of `LiveBeam.over`.
        weights: (B, K, S), what was attended to, for a penalty that reads it.
    """

    totals: Tensor
    lengths: Tensor
    going: Tensor
    ended: Tensor
    remaining: Tensor
    over: Tensor
    weights: Tensor | None = None


def roll_out(
    request: Request,
    choose: Callable[[Tensor, LiveBeam], Tensor],
    penalty: AbstractPenalty,
    processors: Sequence[Processor],
    *,
    width: int,
    min_length: int,
    generator: Generator | None = None,
    storage: Storage = "float32",
    constant: Hashable = None,
) -> Steps:
    """`width` hypotheses per sentence, best first; `choose` picks tokens (R,) from log-probabilities (R, N).

    Row r is the hypothesis r % width of sentence `live beam.sentences[r // width]`, at every step the same one.

    A hypothesis for which every token is impossible stops, with `stop_reason` "length". If streamed, `width` is 1.
    """
    count, eos = tree.rows(request.memory), request.eos
    if count == 0:
        return list
    remaining = length_limits(request.max_length, request.memory)
    live_beam = LiveBeam(
        request,
        width=width,
        min_length=min_length,
        keep_tokens=bool(processors),
        readers=(penalty, *processors),
        generator=generator,
        storage=storage,
        constant=constant,
    )
    keeps_weights = uses_weights(penalty)

    def step(own: _Rolled) -> _Rolled:
        log_probabilities = live_beam.advance()
        going, last = own.going, live_beam.nodes
        may_end, seen = live_beam.may_end(), None
        if processors:
            seen = live_beam.seen(log_probabilities, ended=~going.flatten(), may_end=(going & may_end).flatten())
        processed = process(log_probabilities, seen, processors)
        if may_end is not True:
            processed = processed.clone()
            processed[:, eos] = processed[:, eos].masked_fill(~(going & may_end).flatten(), -inf)
        tokens = choose(processed, live_beam).view_as(last)
        rows = torch.arange(tokens.numel(), device=tokens.device).view_as(tokens)
        values = processed[rows, tokens].masked_fill(~going, 0.0)
        going = going & (values > -inf)
        last = torch.where(going, live_beam.grow(last, tokens, log_probabilities[rows, tokens], rows), last)
        totals = torch.where(going, own.totals + values, own.totals)
        lengths, weights = own.lengths + going, own.weights
        if keeps_weights and live_beam.weights is not None:
            now = live_beam.weights.view(*going.shape, -1)
            before = now.new_zeros(*going.shape, 0) if weights is None else weights
            weights = torch.where(going[..., None], now, widened(before, now.shape[-1], 0.0))
        finished = going & (tokens == eos)
        going = going & ~finished & (live_beam.step < own.remaining)[:, None]
        over = live_beam.over(own.over, ~going.any(1), values)
        live_beam.move(None, tokens, last)
        return _Rolled(totals, lengths, going, own.ended | finished, own.remaining, over, weights)

    totals = torch.zeros(count, width, dtype=live_beam.precision, device=remaining.device)
    lengths, going = torch.zeros_like(live_beam.nodes), torch.ones_like(live_beam.nodes, dtype=torch.bool)
    own = _Rolled(totals, lengths, going, ~going, remaining, torch.zeros_like(remaining))
    scores, nodes, ended = totals.clone(), live_beam.nodes.clone(), ~going
    while len(live_beam):
        own = live_beam.take(step, own)
        if (leaving := live_beam.leaving(own.over)) is None:
            if request.streaming:
                yield _progress(live_beam)
            continue
        left = live_beam.sentences[leaving]
        gone = tree.reorder(own, leaving.nonzero()[:, 0])
        mask = None if gone.weights is None or live_beam.mask is None else live_beam.mask[leaving]
        scores[left] = penalty.score(Candidates(gone.totals, gone.lengths, gone.ended, gone.weights, mask))
        nodes[left], ended[left] = live_beam.nodes[leaving], gone.ended
        if request.streaming:
            yield Ended(live_beam.history, left, *(x[left, 0] for x in (nodes, scores, ended)))
        own = live_beam.without(leaving, own)
        if request.streaming and len(live_beam):
            yield _progress(live_beam)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    nodes, ended = nodes.gather(1, order), ended.gather(1, order)

    def read() -> list[list[Hypothesis]]:
        stops: list[StopReason] = ["eos" if e else "length" for e in ended.flatten().tolist()]
        hypotheses = live_beam.history.read(nodes.flatten(), scores.flatten().tolist(), stops)
        return [hypotheses[b * width : (b + 1) * width] for b in range(count)]

    return read


def _progress(live_beam: LiveBeam) -> SearchProgress:
    """All that has been said is certain."""
    nodes = live_beam.nodes
    return SearchProgress(live_beam.history, live_beam.sentences, nodes, torch.ones_like(nodes, dtype=torch.bool))


def greedy_steps(request: Request, options: Search) -> Steps:
    """Takes the most probable token at every step, the lower id among equals; one hypothesis per sentence."""
    penalty = penalty_of(options, request.penalty)
    require_source(penalty, request.source)
    limits = length_limits(request.max_length, request.memory)
    rows = checked(
        request.constraints,
        len(limits),
        eos=request.eos,
        limits=limits,
        no_include="a beam of at least 2; greedy search (beam 1) has only one hypothesis",
    )
    return roll_out(
        request,
        lambda log_probabilities, live_beam: largest(log_probabilities, 1)[1],
        penalty,
        processors_of(options, request.processors, unk=request.unk, constraints=rows, device=limits.device),
        width=1,
        min_length=options.min_length,
        storage=options.weights,
        constant=constant_of(options, penalty),
    )
