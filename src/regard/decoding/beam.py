"""Beam search: the search, its step, and the rules by which hypotheses end and a sentence is over.

The other half of the search is `regard.decoding.live_beam`: the loop over steps (`AbstractSearch.run`) and the
decoder's states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

import torch
from torch import Tensor

from regard import tree
from regard.config.search import Search
from regard.decoding.banks import Banks
from regard.decoding.history import ROOT
from regard.decoding.live_beam import AbstractSearch, LiveBeam, widened
from regard.decoding.penalty import Candidates
from regard.decoding.request import Request, Steps
from regard.decoding.result import Hypothesis
from regard.decoding.rules import SearchRules, rules_of
from regard.ops import largest


def beam_steps(request: Request, options: Search) -> Steps:
    """Follows the `beam` most probable unfinished hypotheses, 2 or more, of every sentence at once.

    At each step every hypothesis of the beam may end: its end of sentence is admitted whatever its rank, and the
    `num_best` finished hypotheses with the highest penalised scores are kept. The `beam` most probable continuations
    form the next beam. A sentence is over when none of them can beat the last of the `num_best` finished ones, even if
    all further tokens were certain (`AbstractPenalty.bound`); searching on would therefore return the same. At the
    maximum length the list is filled up with unfinished hypotheses. If every hypothesis of the beam has become
    impossible and none has finished, the beam of the step before is returned.

    A beam of 1 is greedy search by definition: the end of sentence is taken only when it is the most probable token. By
    the rule above it would be admitted at every step.

    With `keep_finished` the end of sentence is a token like any other, and finished hypotheses compete for their places
    in the beam (`regard.decoding.keep_finished`).
    """
    if tree.rows(request.memory) == 0:
        return list
    search = _BeamSearch(request, options, rules_of(request, options))
    read = yield from request.watched(search).run(search.initial_state())
    if options.num_groups == 1:
        return read
    return lambda: [_united(hypotheses)[: options.num_best] for hypotheses in read()]


@dataclass(frozen=True, slots=True)
class _Beams:
    """The beams of B sentences: K hypotheses each, in G groups.

    Args:
        totals: (B, K), log-probabilities, descending within each group; -inf if there is no hypothesis.
        finished: (B, G, num_kept), the scores of the best finished hypotheses; -inf if there is none.
        finished_nodes: (B, G, num_kept), their last nodes.
        counts: (B, G), the number of hypotheses that have ended, for stopping rules that count them.
        before: totals and nodes (B, K) of the step before.
        contained: (B, K, P), which phrases each hypothesis contains.
    """

    totals: Tensor
    finished: Tensor
    finished_nodes: Tensor
    counts: Tensor
    before: tuple[Tensor, Tensor]
    contained: Tensor | None


class _BeamSearch(AbstractSearch[_Beams]):
    """Beam search of a batch.

    Attributes:
        groups, width: the number of groups and the hypotheses of each.
        num_kept: the finished hypotheses that each group keeps, at most as many as can end.
        num_ends: the finished hypotheses that end a group's search, if `stop` counts them.
    """

    def __init__(self, request: Request, options: Search, rules: SearchRules) -> None:
        self.options, self.penalty, self.eos = options, rules.penalty, request.eos
        constraints = rules.constraints
        has_phrases = constraints is not None and any(row.include for row in constraints)
        self.banks = Banks(constraints, rules.limits.device) if constraints is not None and has_phrases else None
        self.groups, self.width = options.num_groups, options.beam // options.num_groups
        self.live_beam = LiveBeam(
            request, options, rules, width=options.beam, begins_alike=self.groups == 1, keep_tokens=has_phrases
        )
        self.num_returned = ceil(options.num_best / self.groups)
        kept = max(self.num_returned, self.width) if options.stop == "full" else self.num_returned
        self.num_kept = min(kept, self.width * int(rules.limits.max()))
        enough = {"first": 1, "patience": ceil(options.patience * self.width)}.get(options.stop)
        self.num_ends = None if enough is None else max(enough, self.num_returned)

    def initial_state(self) -> _Beams:
        """One empty hypothesis in each group."""
        live = self.live_beam
        count = len(live)
        totals = torch.full((count, live.width), -inf, dtype=live.precision, device=live.inputs.device)
        self._by_group(totals)[..., 0] = 0
        finished = totals.new_full((count, self.groups, self.num_kept), -inf)
        nodes = live.nodes.new_full(finished.shape, ROOT)
        contained = None if self.banks is None else self.banks.begin(live.rows()).unflatten(0, (count, -1))
        return _Beams(totals, finished, nodes, torch.zeros_like(nodes[..., 0]), (totals, live.nodes), contained)

    def step(self, state: _Beams) -> tuple[_Beams, Tensor, Tensor]:
        live, totals, before = self.live_beam, state.totals, self.live_beam.nodes
        log_probabilities = live.advance()
        dead, may_end = totals == -inf, live.may_end()
        if state.contained is not None:
            may_end = state.contained.all(2) & may_end
        processed = live.processed(log_probabilities, dead, may_end)

        # the hypotheses that continue
        new_totals, tokens, parents, contained = self._continuations(processed, state)
        chosen = self._by_group(new_totals)[..., 0]

        # the hypotheses that end
        finished, finished_nodes, counts = state.finished, state.finished_nodes, state.counts
        ended = None
        if may_end is not False:
            rows = torch.arange(len(log_probabilities), device=totals.device).view_as(totals)
            nodes = live.grow(before, torch.full_like(rows, self.eos), log_probabilities[:, self.eos].clone(), rows)
            ended = totals + processed[:, self.eos].view_as(totals)
            ended = ended.masked_fill(dead, -inf)
            if may_end is not True:
                ended = ended.masked_fill(~may_end, -inf)
            chosen = torch.cat([chosen, ended], 1)
            ended, new_totals, counts = self._admitted(ended, new_totals, counts)
            scores = self._scores(ended, live.step, live.weights, ended=True)
            finished, order = torch.cat([finished, scores], 2).sort(dim=2, descending=True, stable=True)
            finished = finished[..., : self.num_kept]
            nodes = torch.cat([finished_nodes, self._by_group(nodes)], 2)
            finished_nodes = nodes.gather(2, order[..., : self.num_kept])

        new_nodes = live.grow(before.flatten()[parents], tokens, log_probabilities[parents, tokens], parents)
        after = _Beams(new_totals, finished, finished_nodes, counts, (totals, before), contained)
        over = self._is_over(after, ended, parents).all(1) | (live.remaining <= live.step)
        live.move(parents, tokens, new_nodes)
        return after, over, chosen

    def _continuations(self, processed: Tensor, state: _Beams) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The next beam: log-probabilities (B, beam), descending within each group, tokens, rows of the parents, and
        the phrases that hypotheses contain, (B, beam, P).

        Source: for groups, Vijayakumar et al. 2018, Diverse Beam Search, with Hamming diversity: a token of group g
        loses λ for every hypothesis of the groups before it that has chosen the token at this step.
        """
        totals, live = state.totals, self.live_beam
        count, groups = len(totals), self.groups
        first = torch.arange(0, totals.numel(), totals.shape[1], device=totals.device)[:, None]
        if groups == 1 and self.banks is None:
            new_totals, tokens, parents = self._most_probable(processed, totals)
            return new_totals, tokens, parents.add_(first), None
        width = totals.shape[1] // groups
        by_group = processed.view(count, groups, width, -1)
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        containing: list[Tensor] = []
        for g in range(groups):
            scores, sums = by_group[:, g], self._by_group(totals)[:, g].contiguous()
            if parts:
                losses = torch.cat([(part[0] > -inf) * -self.options.diversity for part in parts], 1).to(scores.dtype)
                chosen = torch.cat([part[1] for part in parts], 1)
                scores = scores.scatter_add(2, *(x[:, None].expand(-1, width, -1) for x in (chosen, losses)))
            scores = scores.reshape(count * width, -1)
            if self.banks is None:
                new_totals, tokens, parents = self._most_probable(scores, sums)
            else:
                assert state.contained is not None
                assert live.tokens is not None
                before, contained = (
                    x.reshape(count, groups, width, x.shape[-1])[:, g].flatten(0, 1)
                    for x in (live.tokens, state.contained)
                )
                sentences = live.sentences.repeat_interleave(width)
                new_totals, tokens, parents, contained = self.banks.extend(
                    scores, sums, before, sentences, contained, width=self.width, eos=self.eos
                )
                containing.append(contained)
            parts.append((new_totals, tokens, parents + first + g * width))
        new_totals, tokens, parents = (torch.cat(each, 1) for each in zip(*parts, strict=True))
        return new_totals, tokens, parents, torch.cat(containing, 1) if containing else None

    def _most_probable(self, processed: Tensor, totals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The most probable continuations (B, width) of hypotheses (B, K): log-probabilities, tokens, and the places of
        their parents; `processed` (B K, N) has the log-probabilities of the next token."""
        values, tokens = largest(processed, self.width, without=self.eos)
        summed = (totals.view(-1, 1) + values).masked_fill((totals == -inf).view(-1, 1), -inf).view(len(totals), -1)
        new_totals, places = largest(widened(summed, self.width, -inf), self.width)
        places = places.clamp_(max=summed.shape[1] - 1)
        return new_totals, tokens.view(len(totals), -1).gather(1, places), places.floor_divide_(values.shape[1])

    def _admitted(self, ended: Tensor, totals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The ends that count by the stopping rule.

        - `optimal`: all of them.
        - `first`, `patience`: those more probable than the last hypothesis of the next beam, until there are
          `num_ends`.
        - `top`, `full`: those among the `width` most probable of ends and continuations. With `top` they take places of
          the beam, which continues with fewer hypotheses.

        Args:
            ended, totals: (B, K), the log-probabilities of the ends and of the next beam.
            counts: (B, G), of the steps before.

        Returns:
            The log-probabilities of the ends, -inf for those that do not count; those of the next beam; the new counts.
        """
        ends, following, stop = self._by_group(ended), self._by_group(totals), self.options.stop
        if self.groups > 1:
            ends = self._diverse_ends(ends, following)
        if self.num_ends is not None:
            descending, order = ends.sort(dim=2, descending=True, stable=True)
            places = torch.arange(ends.shape[2], device=ends.device)
            counted = (descending > following[..., -1:]) & (places < (self.num_ends - counts)[..., None])
            counted = torch.zeros_like(counted).scatter_(2, order, counted)
        elif stop != "optimal":
            lowest = torch.cat([ends, following], 2).topk(following.shape[2], dim=2).values[..., -1:]
            counted = (ends >= lowest) & (ends > -inf)
            if stop == "top":
                following = following.masked_fill(following < lowest, -inf)
        else:
            return ends.flatten(1), totals, counts
        ends, counts = ends.masked_fill(~counted, -inf), counts + counted.sum(2)
        return ends.flatten(1), following.flatten(1), counts

    def _diverse_ends(self, ends: Tensor, following: Tensor) -> Tensor:
        """The ends (B, G, ·), which lose λ for every end of an earlier group that is more probable than the last
        hypothesis of its group's next beam, as if the end were a token like any other."""
        by_group = list(ends.unbind(1))
        chosen = torch.zeros_like(ends[:, 0, :1])
        for g, lowest in enumerate(following[..., -1:].unbind(1)):
            by_group[g] = by_group[g] - self.options.diversity * chosen
            chosen = chosen + (by_group[g] > lowest).sum(1, keepdim=True)
        return torch.stack(by_group, 1)

    def _is_over(self, state: _Beams, ended: Tensor | None, parents: Tensor) -> Tensor:
        """(B, G): whether the search of each group is over, if not by its length.

        Args:
            state: after the step, before the hypotheses have moved.
            ended: (B, K), the log-probabilities of the ends that count; None if none may end.
            parents: (B, beam), rows.
        """
        live, stop = self.live_beam, self.options.stop
        leading, last = self._by_group(state.totals)[..., 0], state.finished[..., -1]
        over = leading == -inf
        if ended is None:
            return over
        if stop == "top":
            return over | ((self._by_group(ended).amax(2) > leading) & (state.counts >= self.num_returned))
        if stop == "full":
            weights = None if live.weights is None else live.weights[parents]
            bound = self._scores(state.totals, live.step, weights)[..., 0]
        else:
            bound = self.penalty.bound(leading, live.step, live.remaining[:, None])
        over = over | ((last > -inf) & (bound <= last))
        return over if self.num_ends is None else over | (state.counts >= self.num_ends)

    def results(self, state: _Beams) -> tuple[Tensor, Tensor, Tensor]:
        """As of `AbstractSearch`, with C = num_kept + width: first the finished hypotheses, then those of the beam."""
        live = self.live_beam
        unfinished, last = self._scores(state.totals, live.step, live.weights), self._by_group(live.nodes)
        # if nothing is possible and nothing has ended, the beam of the step before
        stranded = ((unfinished[..., 0] == -inf) & (state.finished[..., 0] == -inf)).all(1)[:, None, None]
        if live.is_recorded or bool(stranded.any()):
            totals, nodes = state.before
            earlier = self._scores(totals, live.step - 1, live.weights_before)
            unfinished = torch.where(stranded, widened(earlier, self.width, -inf), unfinished)
            last = torch.where(stranded, widened(self._by_group(nodes), self.width, ROOT), last)
        unfinished, order = unfinished.sort(dim=2, descending=True, stable=True)  # a penalty may change the order
        last = last.gather(2, order)
        ended = torch.ones_like(state.finished, dtype=torch.bool), torch.zeros_like(last, dtype=torch.bool)
        scores, nodes = torch.cat([state.finished, unfinished], 2), torch.cat([state.finished_nodes, last], 2)
        return scores, nodes, torch.cat(ended, 2)

    def possible(self, state: _Beams) -> tuple[Tensor, Tensor]:
        nodes = torch.cat([state.finished_nodes[:, 0, :1], self.live_beam.nodes], 1)
        return nodes, torch.cat([state.finished[:, 0, :1], state.totals], 1) > -inf

    def _by_group(self, values: Tensor) -> Tensor:
        """(B, G, K / G) from (B, K)."""
        return values.view(len(values), self.groups, -1)

    def _scores(self, totals: Tensor, length: int | Tensor, weights: Tensor | None, *, ended: bool = False) -> Tensor:
        """(B, G, K / G): the penalised scores of hypotheses of `length` tokens, whose rows have these weights."""
        candidates = Candidates(totals, length, ended)
        if weights is not None:
            candidates = Candidates(totals, length, ended, weights.view(*totals.shape, -1), self.live_beam.mask)
        return self._by_group(self.penalty.score(candidates))


def _united(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses of all groups, finished ones first, best first; of equal ones only the best."""
    ranked = sorted(hypotheses, key=lambda h: (h.stop_reason != "eos", -h.score))
    distinct = {tuple(h.tokens.tolist()): h for h in reversed(ranked)}
    return [h for h in ranked if distinct[tuple(h.tokens.tolist())] is h]
