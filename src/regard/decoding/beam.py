"""Beam search."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

import torch
from torch import Tensor

from regard import tree
from regard.config.search import Search
from regard.decoding.banks import Banks
from regard.decoding.constraint import checked
from regard.decoding.history import ROOT, History
from regard.decoding.live_beam import LiveBeam, length_limits, widened
from regard.decoding.options import processors_of
from regard.decoding.penalty import AbstractPenalty, Candidates, penalty_of, require_source
from regard.decoding.processor import Processor, process
from regard.decoding.recorded import constant_of
from regard.decoding.request import Ended, Request, SearchProgress, Steps
from regard.decoding.result import Hypothesis, StopReason
from regard.ops import largest


def beam_steps(request: Request, options: Search) -> Steps:
    """Follows the `beam` most probable unfinished hypotheses, 2 or more, of every sentence at once.

    At each step every hypothesis of the beam may end: its end of sentence is admitted whatever its rank, and the
    `num_best` finished hypotheses with the highest penalised scores are kept. Besides, the `beam` most probable
    continuations form the next beam. A sentence stops when none of them can beat the last of the `num_best` finished
    ones, even if all further tokens were certain (`AbstractPenalty.bound`). Searching on, for example until a whole
    beam has finished, would therefore return the same. At the maximum length the list is filled up with unfinished
    hypotheses. If every hypothesis of the beam has become impossible and none has finished, the beam of the step before
    is returned.

    A beam of 1 is greedy search by definition: the end of sentence is taken only when it is the most probable token. By
    the rule above it would be admitted at every step.

    With `keep_finished` the end of sentence is a token among others, and what has finished competes for its place in
    the beam (`regard.decoding.keep_finished`).
    """
    if tree.rows(request.memory) == 0:
        return list
    penalty = penalty_of(options, request.penalty)
    require_source(penalty, request.source)
    remaining = length_limits(request.max_length, request.memory)
    rows = checked(request.constraints, len(remaining), eos=request.eos, limits=remaining)
    processors = processors_of(options, request.processors, unk=request.unk, constraints=rows, device=remaining.device)
    banks = Banks(rows, remaining.device) if rows is not None and any(row.include for row in rows) else None
    live_beam = LiveBeam(
        request,
        width=options.beam,
        min_length=options.min_length,
        begins_alike=options.num_groups == 1,
        keep_tokens=bool(processors) or banks is not None,
        readers=(penalty, *processors),
        storage=options.weights,
        constant=constant_of(options, penalty),
    )
    scores, nodes = yield from _search(live_beam, options, remaining, penalty, processors, banks, request.streaming)
    best = _best(options, remaining)

    def read() -> list[list[Hypothesis]]:
        groups = [[[p for p, score in enumerate(group) if score > -inf] for group in row] for row in scores.tolist()]
        kept = [
            (b, g, p)
            for b, row in enumerate(groups)
            for g, columns in enumerate(row)
            for p in columns[: _share(options)]
        ]
        chosen = torch.tensor(kept, dtype=torch.long, device=nodes.device).view(-1, 3).unbind(1)
        stops: list[StopReason] = ["eos" if p < best else "length" for _, _, p in kept]
        hypotheses = live_beam.history.read(nodes[chosen], scores[chosen].tolist(), stops)
        results: list[list[Hypothesis]] = [[] for _ in groups]
        for (b, _, _), hypothesis in zip(kept, hypotheses, strict=True):
            results[b].append(hypothesis)
        return results if options.num_groups == 1 else [_united(found)[: options.num_best] for found in results]

    return read


@dataclass(frozen=True, slots=True)
class _Beams:
    """The beams of B sentences, in G groups.

    Args:
        totals: (B, K), the log-probabilities of the hypotheses, falling within each group; -inf for none.
        finished: (B, G, best), the scores of the best that have ended; -inf for none.
        finished_nodes: (B, G, best), their last nodes.
        counts: (B, G), how many have ended, for rules of stopping that count.
        remaining: (B,), the largest number of tokens.
        over: as of `LiveBeam.over`.
        before: (B, K) totals and nodes of the step before.
        contained: (B, K, P), which phrases hypotheses contain.
        final: of recorded searches scores and nodes (B, G, best + K / G) of sentences that are over.
    """

    totals: Tensor
    finished: Tensor
    finished_nodes: Tensor
    counts: Tensor
    remaining: Tensor
    over: Tensor
    before: tuple[Tensor, Tensor]
    contained: Tensor | None
    final: tuple[Tensor, Tensor] | None = None


def _search(
    live_beam: LiveBeam,
    options: Search,
    remaining: Tensor,
    penalty: AbstractPenalty,
    processors: Sequence[Processor],
    banks: Banks | None,
    streaming: bool,
) -> Generator[SearchProgress | Ended, None, tuple[Tensor, Tensor]]:
    """Scores and last nodes of every group of every sentence, (B, G, best + beam / G): first of finished hypotheses,
    then of those of its beam."""
    eos, best, groups = live_beam.eos, _best(options, remaining), options.num_groups
    count, width = len(live_beam), options.beam // groups
    enough = _enough(options) if options.stop in ("first", "patience") else None

    def step(own: _Beams) -> _Beams:
        log_probabilities = live_beam.advance()
        length, totals, counts = live_beam.step, own.totals, own.counts
        finished, finished_nodes, before = own.finished, own.finished_nodes, live_beam.nodes
        dead = totals == -inf
        may_end = live_beam.may_end()
        if own.contained is not None:
            may_end = own.contained.all(2) & may_end
        seen = None
        if processors:
            seen = live_beam.seen(log_probabilities, may_end=(may_end & ~dead).flatten())
        processed = process(log_probabilities, seen, processors)

        new_totals, tokens, parents, contained = _continuations(
            processed, totals, live_beam, options, banks, own.contained
        )
        heads = new_totals.view(len(totals), groups, -1)[..., 0]
        chosen = heads
        if may_end is not False:
            rows = torch.arange(len(log_probabilities), device=log_probabilities.device).view_as(totals)
            ends = live_beam.grow(before, torch.full_like(rows, eos), log_probabilities[:, eos].clone(), rows)
            ended = (totals + processed[:, eos].view_as(totals)).masked_fill(dead, -inf)
            if may_end is not True:
                ended = ended.masked_fill(~may_end, -inf)
            chosen = torch.cat([heads, ended], 1)
            if groups > 1:
                ended = _diverse_ends(ended, new_totals, options)
            if enough is not None:
                ended, counts = _taken(ended, new_totals, counts, enough)
            elif options.stop != "optimal":
                ended, new_totals, counts = _among(ended, new_totals, counts, shares=options.stop == "top")
                heads = new_totals.view(len(totals), groups, -1)[..., 0]
                top_ends = ended.view(len(totals), groups, -1).amax(2) > heads
            scores = penalty.score(_candidates(ended, length, live_beam.weights, live_beam, ended=True))
            scores = scores.view(len(totals), groups, -1)
            finished, order = torch.cat([finished, scores], 2).sort(dim=2, descending=True, stable=True)
            ends = ends.view(len(totals), groups, -1)
            finished_nodes = torch.cat([finished_nodes, ends], 2).gather(2, order)[..., :best]
            finished = finished[..., :best]
        said = log_probabilities[parents, tokens]
        new_nodes = live_beam.grow(before.flatten()[parents], tokens, said, parents)

        extinct = heads == -inf
        done = extinct
        if may_end is not False:
            full = finished[..., -1] > -inf
            if options.stop == "top":
                done = done | (top_ends & (counts >= _share(options)))
            elif options.stop == "full":
                weights = None if live_beam.weights is None else live_beam.weights[parents]
                leading = penalty.score(_candidates(new_totals, length, weights, live_beam))
                done = done | (full & (leading.view(*counts.shape, -1)[..., 0] <= finished[..., -1]))
            else:
                done = done | (full & (penalty.bound(heads, length, own.remaining[:, None]) <= finished[..., -1]))
            done = done if enough is None else done | (counts >= enough)
        over = live_beam.over(own.over, done.all(1) | (own.remaining <= length), chosen)
        live_beam.move(parents, tokens, new_nodes)
        now = _Beams(
            new_totals,
            finished,
            finished_nodes,
            counts,
            own.remaining,
            over,
            (totals, before),
            contained,
            own.final,
        )
        if not live_beam.is_recorded:
            return now
        return replace(now, final=live_beam.settled(ranked(now), own.final, over, own.over))

    def ranked(own: _Beams) -> tuple[Tensor, Tensor]:
        """The scores and last nodes of sentences, as `_search` returns them, if they are over now."""

        def scored(totals: Tensor, length: int | Tensor, weights: Tensor | None) -> Tensor:
            return penalty.score(_candidates(totals, length, weights, live_beam)).view(len(totals), groups, -1)

        unfinished, last = scored(own.totals, live_beam.step, live_beam.weights), live_beam.nodes
        last = last.view(unfinished.shape)
        # nothing is possible and nothing has ended: then the beam before it
        stranded = ((unfinished[..., 0] == -inf) & (own.finished[..., 0] == -inf)).all(1)[:, None, None]
        if live_beam.is_recorded or bool(stranded.any()):
            totals, nodes = own.before
            earlier = scored(totals, live_beam.step - 1, live_beam.weights_before)
            unfinished = torch.where(stranded, widened(earlier, width, -inf), unfinished)
            last = torch.where(stranded, widened(nodes.view(earlier.shape), width, ROOT), last)
        unfinished, order = unfinished.sort(dim=2, descending=True, stable=True)  # a penalty may rank otherwise
        return torch.cat([own.finished, unfinished], 2), torch.cat([own.finished_nodes, last.gather(2, order)], 2)

    totals = torch.full((count, live_beam.width), -inf, dtype=live_beam.precision, device=remaining.device)
    totals.view(count, groups, -1)[..., 0] = 0
    finished = totals.new_full((count, groups, best), -inf)
    finished_nodes = live_beam.nodes.new_full((count, groups, best), ROOT)
    own = _Beams(
        totals,
        finished,
        finished_nodes,
        torch.zeros_like(finished_nodes[..., 0]),
        remaining,
        torch.zeros_like(remaining),
        (totals, live_beam.nodes),
        None if banks is None else banks.begin(live_beam.rows()).unflatten(0, (count, -1)),
    )
    results = totals.new_full((count, groups, best + width), -inf)
    results_nodes = live_beam.nodes.new_full((count, groups, best + width), ROOT)
    while len(live_beam):
        own = live_beam.take(step, own)
        if (leaving := live_beam.leaving(own.over)) is not None:
            left = live_beam.sentences[leaving]
            now = own.final if live_beam.is_recorded and own.final is not None else ranked(own)
            for result, values in zip((results, results_nodes), now, strict=True):
                result[left] = values[leaving]
            if streaming:
                yield _first(live_beam.history, left, results[left, 0], results_nodes[left, 0], best)
            own = live_beam.without(leaving, own)
        if streaming and len(live_beam):
            live = torch.cat([own.finished_nodes[:, 0, :1], live_beam.nodes], 1)
            possible = torch.cat([own.finished[:, 0, :1], own.totals], 1) > -inf
            yield SearchProgress(live_beam.history, live_beam.sentences, live, possible)
    return results, results_nodes


def _first(history: History, sentences: Tensor, scores: Tensor, nodes: Tensor, best: int) -> Ended:
    """The best hypotheses of M sentences.

    Args:
        scores, nodes: (M, best + beam), first of finished hypotheses, then of others; -inf is none.
    """
    column = (scores > -inf).int().argmax(1, keepdim=True)
    return Ended(history, sentences, nodes.gather(1, column)[:, 0], scores.gather(1, column)[:, 0], column[:, 0] < best)


def _continuations(
    processed: Tensor,
    totals: Tensor,
    live_beam: LiveBeam,
    options: Search,
    banks: Banks | None,
    contained: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The next beam: log-probabilities (B, beam), falling within each group, tokens, flat rows of the parents, and
    which phrases hypotheses contain, (B, beam, P).

    Source: for groups, Vijayakumar et al. 2018, Diverse Beam Search, with Hamming diversity: a token of group g loses λ
    for every hypothesis of the groups before it that has chosen the token at this step.
    """
    count, groups = len(totals), options.num_groups
    width, beam = totals.shape[1] // groups, options.beam // groups
    first = torch.arange(0, totals.numel(), totals.shape[1], device=totals.device)[:, None]
    if groups == 1 and banks is None:
        new_totals, tokens, parents = _most_probable(processed, totals, beam, live_beam.eos)
        return new_totals, tokens, parents.add_(first), None
    by_group = processed.view(count, groups, width, -1)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    containing: list[Tensor] = []
    for g in range(groups):
        scores, sums = by_group[:, g], totals.view(count, groups, width)[:, g].contiguous()
        if parts:
            losses = torch.cat([(part[0] > -inf) * -options.diversity for part in parts], 1).to(scores.dtype)
            chosen = torch.cat([part[1] for part in parts], 1)
            scores = scores.scatter_add(2, *(x[:, None].expand(-1, width, -1) for x in (chosen, losses)))
        scores = scores.reshape(count * width, -1)
        if banks is None:
            new_totals, tokens, parents = _most_probable(scores, sums, beam, live_beam.eos)
        else:
            assert contained is not None
            assert live_beam.tokens is not None
            of_group = (
                x.reshape(count, groups, width, x.shape[-1])[:, g].flatten(0, 1) for x in (live_beam.tokens, contained)
            )
            so_far, having = of_group
            sentences = live_beam.sentences.repeat_interleave(width)
            new_totals, tokens, parents, having = banks.extend(
                scores, sums, so_far, sentences, having, width=beam, eos=live_beam.eos
            )
            containing.append(having)
        parts.append((new_totals, tokens, parents + first + g * width))
    joined = [torch.cat(each, 1) for each in zip(*parts, strict=True)]
    now = torch.cat(containing, 1) if containing else None
    return joined[0], joined[1], joined[2], now


def _most_probable(processed: Tensor, totals: Tensor, beam: int, eos: int) -> tuple[Tensor, Tensor, Tensor]:
    """The most probable continuations of hypotheses (B, K): log-probabilities (B, beam), tokens, places of the parents.

    Args:
        processed: (B K, N), the log-probabilities of the next token.
    """
    dead = totals == -inf
    values, tokens = largest(processed, beam, without=eos)
    candidates = (totals.view(-1, 1) + values).masked_fill(dead.view(-1, 1), -inf).view(len(totals), -1)
    new_totals, indices = largest(widened(candidates, beam, -inf), beam)
    indices = indices.clamp_(max=candidates.shape[1] - 1)
    return new_totals, tokens.view(len(totals), -1).gather(1, indices), indices.floor_divide_(values.shape[1])


def _diverse_ends(ended: Tensor, new_totals: Tensor, options: Search) -> Tensor:
    """The log-probabilities of the ends of a step (B, beam), which lose λ for every end of a group before.

    As all hypotheses end at every step, those count that are more probable than the last one of their group's next
    beam, as if the end were a token among others.
    """
    groups = options.num_groups
    by_group = list(ended.view(len(ended), groups, -1).unbind(1))
    lowest = new_totals.view(len(ended), groups, -1)[..., -1:].unbind(1)
    chosen = torch.zeros_like(ended[:, :1])
    for g in range(groups):
        by_group[g] = by_group[g] - options.diversity * chosen
        chosen = chosen + (by_group[g] > lowest[g]).sum(1, keepdim=True)
    return torch.cat(by_group, 1)


def _taken(ended: Tensor, new_totals: Tensor, counts: Tensor, enough: int) -> tuple[Tensor, Tensor]:
    """Of the hypotheses that end at a step, those that count, others being -inf, and the new counts (B, G).

    An end counts if it is more probable than the last hypothesis of the next beam, as if it had been among its
    candidates, until there are enough.

    Args:
        ended, new_totals: (B, K), the log-probabilities of the ends and of the next beam.
        counts: (B, G), of the steps before.
    """
    by_group = ended.view(*counts.shape, -1)
    lowest = new_totals.view(*counts.shape, -1)[..., -1:]
    falling, order = by_group.sort(dim=2, descending=True, stable=True)
    places = torch.arange(by_group.shape[2], device=ended.device)
    counted = (falling > lowest) & (places < (enough - counts)[..., None])
    admitted = torch.zeros_like(counted).scatter_(2, order, counted)
    return by_group.masked_fill(~admitted, -inf).view_as(ended), counts + counted.sum(2)


def _among(ended: Tensor, new_totals: Tensor, counts: Tensor, *, shares: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The hypotheses that end at a step among the most probable continuations, others being -inf; the next beam; and
    the new counts (B, G) of ended hypotheses.

    Args:
        ended, new_totals: (B, K), the log-probabilities of the ends and of the next beam, falling within each group.
        counts: (B, G), of the steps before.
        shares: whether ends take places of the beam, which goes on with fewer hypotheses then.
    """
    ends, following = ended.view(*counts.shape, -1), new_totals.view(*counts.shape, -1)
    lowest = torch.cat([ends, following], 2).topk(following.shape[2], dim=2).values[..., -1:]
    counted = (ends >= lowest) & (ends > -inf)
    if shares:
        following = following.masked_fill(following < lowest, -inf)
    ends = ends.masked_fill(~counted, -inf)
    return ends.view_as(ended), following.view_as(new_totals), counts + counted.sum(2)


def _enough(options: Search) -> int:
    """How many finished hypotheses of a group end its search."""
    counts = {"first": 1, "patience": ceil(options.patience * (options.beam // options.num_groups))}
    return max(counts[options.stop], _share(options))


def _share(options: Search) -> int:
    """The hypotheses that each group returns."""
    return -(-options.num_best // options.num_groups)


def _best(options: Search, limits: Tensor) -> int:
    """How many finished hypotheses a group keeps: those that it returns, or that end its search, and at most as many as
    can end, its beam at every step."""
    width = options.beam // options.num_groups
    kept = max(_share(options), width) if options.stop == "full" else _share(options)
    return min(kept, width * int(limits.max()))


def _united(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses of all groups, the finished ones first, best first; of equal ones only the best."""
    ranked = sorted(hypotheses, key=lambda h: (h.stop_reason != "eos", -h.score))
    distinct = {tuple(h.tokens.tolist()): h for h in reversed(ranked)}
    return [h for h in ranked if distinct[tuple(h.tokens.tolist())] is h]


def _candidates(
    totals: Tensor, length: int | Tensor, weights: Tensor | None, live_beam: LiveBeam, *, ended: bool = False
) -> Candidates:
    """Hypotheses (B, K) of `length` tokens, with the weights of their rows if the live beam keeps them."""
    if weights is None:
        return Candidates(totals, length, ended)
    return Candidates(totals, length, ended, weights.view(*totals.shape, -1), live_beam.mask)
