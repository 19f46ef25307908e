"""Beam search in which finished hypotheses keep their places in the beam."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import torch
from torch import Tensor

from regard import tree
from regard.config.search import Search
from regard.decoding.constraint import checked
from regard.decoding.expansion import expand
from regard.decoding.history import ROOT
from regard.decoding.live_beam import LiveBeam, length_limits, widened
from regard.decoding.options import processors_of
from regard.decoding.penalty import penalty_of, require_source
from regard.decoding.processor import process
from regard.decoding.recorded import constant_of
from regard.decoding.request import Ended, Request, SearchProgress, Steps
from regard.decoding.result import Hypothesis, StopReason


@dataclass(frozen=True, slots=True)
class _Kept:
    """The beams (B, K) of B sentences.

    Args:
        scores, totals, lengths: as of `Expansion`.
        finished: bool, which have ended or are not there.
        remaining: (B,), the largest number of tokens.
        over: as of `LiveBeam.over`.
        before: (B, K) scores, last nodes and which had ended, of the step before.
        final: of recorded searches the same of sentences that are over.
    """

    scores: Tensor
    totals: Tensor
    lengths: Tensor
    finished: Tensor
    remaining: Tensor
    over: Tensor
    before: tuple[Tensor, Tensor, Tensor]
    final: tuple[Tensor, Tensor, Tensor] | None = None


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
    live_beam = LiveBeam(
        request,
        width=beam,
        min_length=options.min_length,
        begins_alike=True,
        keep_tokens=bool(processors),
        readers=(penalty, *processors),
        storage=options.weights,
        constant=constant_of(options, penalty),
    )

    def step(own: _Kept) -> _Kept:
        totals, finished = own.totals, own.finished
        live_beam.finished = finished.flatten()
        log_probabilities = live_beam.advance()
        may_end, seen = live_beam.may_end(), None
        if processors:
            admitted = (~finished & may_end).flatten()
            seen = live_beam.seen(log_probabilities, ended=finished.flatten(), may_end=admitted)
        processed = process(log_probabilities, seen, processors)
        if may_end is not True:
            barred = torch.as_tensor(may_end, device=totals.device).logical_not().expand_as(totals).flatten()
            processed = processed.clone()
            processed[:, eos] = processed[:, eos].masked_fill(barred, -inf)
        weights = live_beam.weights
        beams = expand(
            processed.view(*totals.shape, -1),
            totals,
            finished,
            own.lengths,
            penalty,
            width=beam,
            eos=eos,
            weights=None if weights is None else weights.view(*totals.shape, -1),
            mask=live_beam.mask,
        )
        parents = beams.parents + torch.arange(0, totals.numel(), totals.shape[1], device=totals.device)[:, None]
        before, had_finished = live_beam.nodes.flatten()[parents], finished.flatten()[parents]
        grown = live_beam.grow(before, beams.tokens, log_probabilities[parents, beams.tokens], parents)
        nodes, earlier = torch.where(had_finished, before, grown), live_beam.nodes
        possible = beams.scores > -inf
        leaving = (beams.finished | ~possible).all(1) | (own.remaining <= live_beam.step)
        over = live_beam.over(own.over, leaving, beams.scores)
        live_beam.move(parents, beams.tokens, nodes)
        before_it = own.scores, earlier, finished & (totals > -inf)
        now = _Kept(
            beams.scores, beams.totals, beams.lengths, beams.finished | ~possible, own.remaining, over, before_it
        )
        if not live_beam.is_recorded:
            return now
        return replace(now, final=live_beam.settled(ranked(now), own.final, over, own.over))

    def ranked(own: _Kept) -> tuple[Tensor, Tensor, Tensor]:
        """The scores, last nodes and which have ended of sentences, if they are over now."""
        return _unless_stranded((own.scores, live_beam.nodes, own.finished & (own.scores > -inf)), own.before)

    totals = torch.full((count, live_beam.width), -inf, dtype=live_beam.precision, device=remaining.device)
    totals[:, 0] = 0
    lengths = torch.zeros_like(live_beam.nodes)
    finished = totals == -inf
    before = totals, live_beam.nodes, finished
    own = _Kept(totals, totals, lengths, finished, remaining, torch.zeros_like(remaining), before)
    final = totals.new_full((count, beam), -inf)
    final_nodes, final_finished = live_beam.nodes.new_full((count, beam), ROOT), final > 0
    history = live_beam.history
    while len(live_beam):
        own = live_beam.take(step, own)
        if (leaving := live_beam.leaving(own.over)) is not None:
            left = live_beam.sentences[leaving]
            now = own.final if live_beam.is_recorded and own.final is not None else ranked(own)
            for result, values in zip((final, final_nodes, final_finished), now, strict=True):
                result[left] = values[leaving]
            if request.streaming:
                yield Ended(history, left, final_nodes[left, 0], final[left, 0], final_finished[left, 0])
            own = live_beam.without(leaving, own)
        if request.streaming and len(live_beam):
            yield SearchProgress(history, live_beam.sentences, live_beam.nodes, own.totals > -inf)

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


def _unless_stranded(
    now: tuple[Tensor, Tensor, Tensor], before: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, nodes and which have ended, (B, K) each; those from before where no hypothesis is possible now."""
    stranded, width = now[0][:, :1] == -inf, now[0].shape[1]
    fill = (-inf, ROOT, False)
    wide = (widened(x, width, value) for x, value in zip(before, fill, strict=True))
    scores, nodes, ended = (torch.where(stranded, *pair) for pair in zip(wide, now, strict=True))
    return scores, nodes, ended
