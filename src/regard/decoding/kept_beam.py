"""Beam search in which finished hypotheses keep their places in the beam."""

from __future__ import annotations

from math import inf

import torch

from regard import tree
from regard.config.search import Search
from regard.decoding.constraint import checked
from regard.decoding.expansion import expand
from regard.decoding.frontier import Frontier, MinimumLengths, length_limits
from regard.decoding.history import ROOT
from regard.decoding.options import processors_of
from regard.decoding.penalty import penalty_of, require_source
from regard.decoding.processor import process, uses_weights
from regard.decoding.request import Ended, Progress, Request, Steps
from regard.decoding.result import Hypothesis, StopReason


def kept_steps(request: Request, options: Search) -> Steps:
    """Beam search with `keep_finished`, step by step.

    At each step the beam has the best of what has finished and of all continuations of the rest (`expand`). A sentence
    ends when its whole beam has finished, or at its maximum length, and its hypotheses are those of its last beam by
    their last scores, unfinished ones among them. Thus what is decoded together changes nothing; tensorflow-addons
    ranks a finished beam again as long as any sentence of the batch goes on, at lengths that count the end symbol.

    If every hypothesis has become impossible, the beam of the step before is returned.
    """
    count = tree.rows(request.memory)
    if count == 0:
        return list
    penalty = penalty_of(options, request.penalty)
    require_source(penalty, request.source)
    remaining = length_limits(request.max_length, request.memory)
    rows = checked(
        request.constraints,
        count,
        eos=request.eos,
        limits=remaining,
        no_include="a beam whose places are shared among phrases; with keep_finished they are not",
    )
    processors = processors_of(options, request.processors, unk=request.unk, constraints=rows, device=remaining.device)
    eos, beam = request.eos, options.beam
    frontier = Frontier(
        request.decoder,
        request.memory,
        bos=request.bos,
        eos=eos,
        width=beam,
        begins_alike=True,
        alignment=request.alignment,
        keep_tokens=bool(processors),
        keep_weights=any(map(uses_weights, (penalty, *processors))),
        items=request.items,
        source=request.source,
        storage=options.weights,
    )
    history, least = frontier.history, MinimumLengths(request.min_length, options.min_length, request.memory)
    totals = torch.full((count, frontier.width), -inf, dtype=frontier.precision, device=remaining.device)
    totals[:, 0] = 0
    scores, lengths, finished = totals, torch.zeros_like(frontier.nodes), totals == -inf
    final = totals.new_full((count, beam), -inf)
    final_nodes, final_finished = frontier.nodes.new_full((count, beam), ROOT), finished.new_zeros(count, beam)
    while len(frontier):
        frontier.finished = finished.flatten()
        log_probabilities = frontier.advance()
        may_end, seen = least.reached(frontier.sentences, frontier.step), None
        if processors:
            admitted = (~finished & may_end).flatten()
            seen = frontier.seen(log_probabilities, ended=finished.flatten(), may_end=admitted)
        processed = process(log_probabilities, seen, processors)
        if may_end is not True:
            barred = torch.as_tensor(may_end, device=totals.device).logical_not().expand_as(totals).flatten()
            processed = processed.clone()
            processed[:, eos] = processed[:, eos].masked_fill(barred, -inf)
        weights, mask = frontier.weights, frontier.mask
        beams = expand(
            processed.view(*totals.shape, -1),
            totals,
            finished,
            lengths,
            penalty,
            width=beam,
            eos=eos,
            weights=None if weights is None else weights.view(*totals.shape, -1),
            mask=mask,
        )
        frontier.require_numbers(beams.scores)
        parents = beams.parents + torch.arange(0, totals.numel(), totals.shape[1], device=totals.device)[:, None]
        before, had_finished = frontier.nodes.flatten()[parents], finished.flatten()[parents]
        grown = history.grow(before, beams.tokens, log_probabilities[parents, beams.tokens], parents)
        nodes = torch.where(had_finished, before, grown)
        ended = beams.finished & (beams.scores > -inf)
        del log_probabilities, processed, seen  # so that those of the next step take their place

        over = beams.finished | (beams.scores == -inf)
        leaving = over.all(1) | (remaining <= frontier.step)
        if not bool(leaving.any()):
            frontier.move(parents, beams.tokens, nodes)
            scores, totals, finished, lengths = beams.scores, beams.totals, over, beams.lengths
        else:
            left, stranded = frontier.sentences[leaving], leaving & (beams.scores[:, 0] == -inf)
            kept = ((final, beams.scores, scores), (final_nodes, nodes, frontier.nodes))
            for result, now, previous in (*kept, (final_finished, ended, finished & (totals > -inf))):
                result[left] = now[leaving].to(result.dtype)
                result[frontier.sentences[stranded], : previous.shape[1]] = previous[stranded].to(result.dtype)
            if request.streaming:
                yield Ended(history, left, final_nodes[left, 0], final[left, 0], final_finished[left, 0])
            staying = (~leaving).nonzero()[:, 0]
            frontier.move(parents[staying], beams.tokens[staying], nodes[staying], staying)
            scores, totals, finished, lengths, remaining = (
                x[staying] for x in (beams.scores, beams.totals, over, beams.lengths, remaining)
            )
        if request.streaming and len(frontier):
            yield Progress(history, frontier.sentences, frontier.nodes, totals > -inf)

    def read() -> list[list[Hypothesis]]:
        best = min(options.num_best, beam)
        sentences, places = (final[:, :best] > -inf).nonzero(as_tuple=True)
        stops: list[StopReason] = ["eos" if e else "length" for e in final_finished[sentences, places].tolist()]
        hypotheses = history.read(final_nodes[sentences, places], final[sentences, places].tolist(), stops)
        results: list[list[Hypothesis]] = [[] for _ in range(count)]
        for sentence, hypothesis in zip(sentences.tolist(), hypotheses, strict=True):
            results[sentence].append(hypothesis)
        return results

    return read
