"""Hypotheses that each go on by themselves, whatever chooses their tokens; greedy search, which takes the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import torch
from torch import Generator, Tensor

from regard import tree
from regard.config.search import Search
from regard.decoding.constraint import checked
from regard.decoding.frontier import Frontier, MinimumLengths, length_limits, widened
from regard.decoding.options import processors_of
from regard.decoding.penalty import AbstractPenalty, Candidates, penalty_of, require_source
from regard.decoding.processor import Processor, process, uses_weights
from regard.decoding.request import Ended, Progress, Request, Steps
from regard.decoding.result import Hypothesis, StopReason
from regard.ops import largest
from regard.ops.over_steps import Storage


def roll_out(
    request: Request,
    choose: Callable[[Tensor, Frontier], Tensor],
    penalty: AbstractPenalty,
    processors: Sequence[Processor],
    *,
    width: int,
    min_length: MinimumLengths,
    generator: Generator | None = None,
    storage: Storage = "float32",
) -> Steps:
    """`width` hypotheses per sentence, best first; `choose` picks tokens (R,) from log-probabilities (R, N).

    Row r is the hypothesis r % width of sentence `frontier.sentences[r // width]`, at every step the same one.

    A hypothesis for which every token is impossible stops, with `stop_reason` "length". If streamed, `width` is 1.
    """
    count, eos = tree.rows(request.memory), request.eos
    if count == 0:
        return list
    remaining = length_limits(request.max_length, request.memory)
    frontier = Frontier(
        request.decoder,
        request.memory,
        bos=request.bos,
        eos=eos,
        width=width,
        alignment=request.alignment,
        keep_tokens=bool(processors),
        keep_weights=any(map(uses_weights, (penalty, *processors))),
        items=request.items,
        source=request.source,
        generator=generator,
        storage=storage,
    )
    totals = torch.zeros(count, width, dtype=frontier.precision, device=remaining.device)
    lengths = torch.zeros_like(frontier.nodes)
    going = torch.ones_like(frontier.nodes, dtype=torch.bool)
    weights = totals.new_zeros(count, width, 0) if uses_weights(penalty) else None
    last = frontier.nodes
    scores, nodes, ended = totals.clone(), last.clone(), ~going
    while len(frontier):
        log_probabilities = frontier.advance()
        may_end, seen = min_length.reached(frontier.sentences, frontier.step), None
        if processors:
            seen = frontier.seen(log_probabilities, ended=~going.flatten(), may_end=(going & may_end).flatten())
        processed = process(log_probabilities, seen, processors)
        if may_end is not True:
            processed = processed.clone()
            processed[:, eos] = processed[:, eos].masked_fill(~(going & may_end).flatten(), -inf)
        tokens = choose(processed, frontier).view_as(last)
        rows = torch.arange(tokens.numel(), device=tokens.device).view_as(tokens)
        values = processed[rows, tokens].masked_fill(~going, 0.0)
        frontier.require_numbers(values)
        going = going & (values > -inf)
        last = torch.where(going, frontier.history.grow(last, tokens, log_probabilities[rows, tokens], rows), last)
        del log_probabilities, processed, seen  # so that those of the next step take their place
        totals = torch.where(going, totals + values, totals)
        lengths = lengths + going
        if weights is not None and frontier.weights is not None:
            now = frontier.weights.view(*going.shape, -1)
            weights = torch.where(going[..., None], now, widened(weights, now.shape[-1], 0.0))
        finished = going & (tokens == eos)
        ended[frontier.sentences] |= finished
        going = going & ~finished & (frontier.step < remaining)[:, None]
        leaving = ~going.any(1)
        if not bool(leaving.any()):
            frontier.move(rows, tokens, last)
            if request.streaming:
                yield _progress(frontier)
            continue
        left = frontier.sentences[leaving]
        scores[left] = penalty.score(
            Candidates(
                totals[leaving],
                lengths[leaving],
                ended[left],
                None if weights is None else weights[leaving],
                None if weights is None or frontier.mask is None else frontier.mask[leaving],
            )
        )
        nodes[left] = last[leaving]
        if request.streaming:
            yield Ended(frontier.history, left, *(x[left, 0] for x in (nodes, scores, ended)))
        staying = (~leaving).nonzero()[:, 0]
        frontier.move(rows[staying], tokens[staying], last[staying], staying)
        totals, lengths, going, last, remaining = (x[staying] for x in (totals, lengths, going, last, remaining))
        weights = None if weights is None else weights[staying]
        if request.streaming and len(frontier):
            yield _progress(frontier)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    nodes, ended = nodes.gather(1, order), ended.gather(1, order)

    def read() -> list[list[Hypothesis]]:
        stops: list[StopReason] = ["eos" if e else "length" for e in ended.flatten().tolist()]
        hypotheses = frontier.history.read(nodes.flatten(), scores.flatten().tolist(), stops)
        return [hypotheses[b * width : (b + 1) * width] for b in range(count)]

    return read


def _progress(frontier: Frontier) -> Progress:
    """All that has been said is certain."""
    nodes = frontier.nodes
    return Progress(frontier.history, frontier.sentences, nodes, torch.ones_like(nodes, dtype=torch.bool))


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
        lambda log_probabilities, frontier: largest(log_probabilities, 1)[1],
        penalty,
        processors_of(options, request.processors, unk=request.unk, constraints=rows, device=limits.device),
        width=1,
        min_length=MinimumLengths(request.min_length, options.min_length, request.memory),
        storage=options.weights,
    )
