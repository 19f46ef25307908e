"""`search_tree`: a search that records what it considers; the recorder watches the search and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from torch import Tensor

from regard import tree
from regard.config.combinations import TREE_EXCLUSIONS, excluded
from regard.config.search import Search
from regard.decoding.history import ROOT, History
from regard.decoding.keep_finished import all_scores
from regard.decoding.live_beam import AbstractSearch
from regard.decoding.penalty import Candidates
from regard.decoding.processor import Processor, SearchState, process, uses_weights
from regard.decoding.request import Request, exhausted
from regard.decoding.result import Hypothesis
from regard.decoding.search import steps_of
from regard.decoding.search_tree import SearchNode, SearchTree, ordinal
from regard.errors import ConfigError, ShapeError
from regard.models.contract import Decoder, Tree
from regard.ops import largest

FORBIDDEN = {
    "NoRepeat": "no_repeat_ngram_size: it would repeat a run of tokens",
    "ExcludedPhrases": "exclude: it would complete a text that the output must not contain",
    "EosThreshold": "eos_threshold: another token is too probable for an end",
    "AttentionStop": "attention_stop: the output must end here",
    "ForcedPrefix": "prefix: another token is given here",
    "without_unknown": "outputs never have the unknown symbol",
}
"""Why a processor of this class makes a token impossible."""


def search_tree(
    decoder: Decoder, memory: Tree, options: Search | None = None, *, runners_up: int = 3, **arguments: Any
) -> tuple[SearchTree, list[Hypothesis]]:
    """Searches for the output of one prepared source as `search` does, and records what was considered.

    The hypotheses are those of `search`. Beside what was kept, the tree has for every hypothesis of a beam the
    `runners_up` most probable tokens that did not follow it, with the reason.

    Args:
        memory: as of `search`, with one row.
        options: of method beam; greedy search and groups included.
        runners_up: pruned tokens of each hypothesis and step.
        **arguments: the further arguments of `search` except text and generator.

    Raises:
        ConfigError: for samples, whose hypotheses do not compete for places.
        ShapeError: for a memory of several sources.

    >>> import torch
    >>> from regard.decoding import SimpleDecoder
    >>> chain = torch.tensor([[0.1, 0.7, 0.2], [0.4, 0.1, 0.5]]).log()  # row: last token; column: next; 2 ends
    >>> decoder = SimpleDecoder(lambda source: (source, None), lambda ids, memory, _: (chain[ids], None))
    >>> memory = decoder.prepare(torch.zeros(1, 4))
    >>> found, _ = search_tree(decoder, memory, Search(beam=1), bos=0, eos=2, max_length=5)
    >>> for node in found.nodes[2:4]:
    ...     print(node.step, node.token, node.state, node.why)
    1 2 pruned 2nd most probable, 1.25 nats below the token that was taken
    1 0 pruned 3rd most probable, 1.95 nats below the token that was taken
    """
    options = Search() if options is None else options
    refuse(options)
    if (count := tree.rows(memory)) != 1:
        raise ShapeError(f"A tree is that of one source, a memory of B=1 row; got {count}.")
    if runners_up < 0:
        raise ConfigError(f"runners_up={runners_up}: give 0 or more.")
    recorder = TreeRecorder(options, runners_up)
    request = Request(decoder=decoder, memory=memory, recorder=recorder, **arguments)
    (hypotheses,) = exhausted(steps_of(request, options))
    return SearchTree(recorder.nodes(), (), recorder.num_steps).returning(hypotheses), hypotheses


def refuse(options: Any) -> None:
    """Refuses a search that has no tree.

    Raises:
        ConfigError: with the key and the reason.
    """
    if (exclusion := excluded(options, TREE_EXCLUSIONS)) is not None:
        raise ConfigError(exclusion[1], ("decoding", exclusion[0]))


@dataclass(frozen=True, slots=True)
class _Loser:
    """A token that may have been pruned.

    Args:
        place: that of its hypothesis in the beam.
        score: the penalised score of an end; else None.
    """

    place: int
    token: int
    log_probability: float
    total: float
    score: float | None
    why: str


@dataclass(frozen=True, slots=True)
class _StepRecord:
    """What a search has decided at a step.

    Args:
        before: the last node of each hypothesis, by its place in the beam.
        kept: the last nodes of the unfinished hypotheses of the next beam, with their totals.
        ended: the nodes of the ends that the search keeps, with their scores.
        ends: the total of each hypothesis if it ends.
        losers: the most probable tokens of each hypothesis, those that were kept included.
        unfinished: the scores of the unfinished hypotheses, by node.
    """

    before: list[int]
    kept: dict[int, float]
    ended: dict[int, float]
    ends: list[float]
    losers: list[_Loser]
    unfinished: dict[int, float]


class TreeRecorder:
    """Records the search of one source.

    It is a processor around those of the search, which sees every step's log-probabilities, and it wraps the search, of
    whose states it reads what was kept. Neither computes anything that the search reads.

    Args:
        options: of the search.
        runners_up: as of `search_tree`.
    """

    def __init__(self, options: Search, runners_up: int) -> None:
        self._options, self._runners_up = options, runners_up
        self._num_groups = options.num_groups
        self._is_greedy = options.beam == 1 and not options.keep_finished
        self._width = options.beam // options.num_groups
        self._steps: list[_StepRecord] = []
        self._history = History()
        self._eos = ROOT

    @property
    def num_steps(self) -> int:
        """The number of steps that the search has taken."""
        return len(self._steps)

    def around(self, processors: Sequence[Processor]) -> tuple[Processor, ...]:
        """The recorder as the only processor, which calls these in order."""
        self._processors = processors
        self.uses_weights = any(map(uses_weights, processors))
        return (self,)

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor:
        result, self._seen, self._forbidden = log_probabilities, state, list[tuple[str, Tensor]]()
        for processor in self._processors:
            before, result = result, process(result, state, [processor])
            name = getattr(processor, "__name__", type(processor).__name__)
            reason = FORBIDDEN.get(name, f"forbidden by the processor {name}")
            self._forbidden.append((reason, (result == -inf) & (before > -inf)))
        self._processed = result
        return result

    def watching(self, search: AbstractSearch[Any]) -> AbstractSearch[Any]:
        """The same search, whose steps are recorded."""
        self._history, self._eos = search.live_beam.history, search.live_beam.eos
        self._limit = int(search.live_beam.remaining[0])
        return _Watched(search, self)

    def add(self, search: Any, state: Any, before: list[int], after: Any) -> None:
        """Records a step of the search from a state to the next one; `before` has the nodes of its hypotheses."""
        live, eos = search.live_beam, self._eos
        processed = self._processed.clone()
        processed[:, eos] = processed[:, eos].masked_fill(~self._seen.may_end, -inf)
        following = after.totals[0]
        scores, nodes, ended = (x[0] for x in search.results(after))
        exists = scores > -inf
        finished, unfinished = (
            dict(zip(nodes[chosen].tolist(), scores[chosen].tolist(), strict=True))
            for chosen in (exists & ended, exists & ~ended)
        )
        alive = live.nodes[0][following > -inf].tolist(), following[following > -inf].tolist()
        kept = {node: total for node, total in zip(*alive, strict=True) if node not in finished}
        losers: list[_Loser] = []
        for g in range(self._num_groups):
            places = slice(g * self._width, (g + 1) * self._width) if self._num_groups > 1 else slice(None)
            log_probabilities = self._diverse(processed, following, live.inputs, g)[places]
            last_end = float(scores[g][ended[g]].min()) if bool(ended[g].any()) else -inf
            losers += self._losers(search, state, after, log_probabilities, places, last_end)
        ends = state.totals[0] + processed[:, eos]
        self._steps.append(_StepRecord(before, kept, finished, ends.tolist(), losers, unfinished))

    def _diverse(self, processed: Tensor, totals: Tensor, tokens: Tensor, group: int) -> Tensor:
        """(K, N) log-probabilities as a group sees them, after the choices of the groups before it."""
        count = group * self._width
        if not count:
            return processed
        losses = ((totals[:count] > -inf) * -self._options.diversity).to(processed.dtype)
        chosen, losses = (x.expand(len(processed), -1) for x in (tokens[:count], losses))
        return processed.scatter_add(1, chosen, losses)

    def _losers(
        self, search: Any, state: Any, after: Any, processed: Tensor, places: slice, last_end: float
    ) -> list[_Loser]:
        """The most probable tokens of the hypotheses of a group, with the reasons for which they are not kept.

        Args:
            processed: (K, N), of the next tokens.
            places: those of the group among all hypotheses.
            last_end: the lowest score of the ends that the group keeps; -inf if there is room for more.
        """
        sums = state.totals[0][places][:, None] + processed
        values, end_scores = self._ranked(search, state, sums, processed, places)
        least = (after.scores if self._options.keep_finished else after.totals)[0][places]
        least = least[least > -inf]
        lowest = float(least.min()) if len(least) else -inf
        log_probabilities, tokens = largest(self._seen.log_probabilities[places], self._runners_up + self._width + 1)
        chosen, ascending = values.gather(1, tokens), values.flatten().sort().values
        ranks = len(ascending) + 1 - torch.searchsorted(ascending, chosen, right=True)
        columns = zip(
            *(x.tolist() for x in (tokens, log_probabilities, sums.gather(1, tokens), chosen, ranks)), strict=True
        )
        losers, dead = list[_Loser](), self._seen.ended[places].tolist()
        for row, each in enumerate(columns):
            place = row + (places.start or 0)
            for token, own, total, value, rank in zip(*each, strict=True):
                if dead[row] or own == -inf:
                    continue
                is_end = token == self._eos and end_scores is not None
                score = float(end_scores[row]) if is_end and end_scores is not None else None
                if self._options.keep_finished:
                    score = value
                if total == -inf:
                    why = self._forbidden_by(place, token, state)
                elif is_end and score is not None:
                    why = self._why_not_ended(score, last_end)
                else:
                    why = self._why_not_kept(value, rank, lowest)
                losers.append(_Loser(place, token, own, total, score, why))
        return losers

    def _ranked(
        self, search: Any, state: Any, sums: Tensor, processed: Tensor, places: slice
    ) -> tuple[Tensor, Tensor | None]:
        """The values (K, N) by which the tokens of a group compete for its places; and the scores (K,) of ends, where
        these do not compete with them."""
        weights = None if self._seen.weights is None else self._seen.weights[places][None]
        mask = None if weights is None else search.live_beam.mask
        if self._options.keep_finished:
            at = state.totals, state.finished, state.lengths
            penalty = search.penalty
            return all_scores(processed[None], *at, penalty, eos=self._eos, weights=weights, mask=mask)[0], None
        if self._is_greedy:
            return sums, None
        values, ends = sums.clone(), sums[None, :, self._eos]
        values[:, self._eos] = -inf
        return values, search.penalty.score(Candidates(ends, search.live_beam.step, True, weights, mask))[0]

    def _forbidden_by(self, place: int, token: int, state: Any) -> str:
        """Why a token is impossible."""
        for reason, mask in self._forbidden:
            if bool(mask[place, token]):
                return reason
        contained = getattr(state, "contained", None)
        if contained is not None and not bool(contained[0, place].all()):
            return "include: a text that the output must contain is missing"
        return "min_length: the output is too short to end"

    def _why_not_ended(self, score: float, last: float) -> str:
        if score <= last:
            return f"it would end with the score {score:.2f}, and the last of the best ends has {last:.2f}"
        return f"stop {self._options.stop}: its end is not among the {self._width} most probable continuations"

    def _why_not_kept(self, value: float, rank: int, lowest: float) -> str:
        gap, place = lowest - value, ordinal(rank)
        if self._is_greedy:
            return f"{place} most probable, {gap:.2f} nats below the token that was taken"
        if self._options.keep_finished:
            return f"{place} for {self._width} places: its score is {gap:.2f} below the last that was kept"
        if gap > 0 and rank > self._width:
            return f"{place} for {self._width} places: {gap:.2f} nats below the last that was kept"
        if gap > 0:
            return f"{place} for {self._width} places, one of which a more probable end has taken"
        if gap < 0:
            return f"{place} for {self._width} places, which went to outputs with more of the texts to include"
        return f"as probable as the last of {self._width} that was kept, which comes first"

    def nodes(self) -> tuple[SearchNode, ...]:
        """All nodes of the tree."""
        parents, tokens, log_probabilities, rows = (values.tolist() for values in self._history.nodes())
        ids, leading = {ROOT: 0}, set[int]()
        nodes = [SearchNode(0, None, 0, None, 0.0, 0.0, None, "kept")]
        last_seen = {node: number for number, step in enumerate(self._steps, start=1) for node in step.ended}
        scores = {node: score for step in self._steps for node, score in step.ended.items()}
        for number, step in enumerate(self._steps, start=1):
            is_last = number == len(self._steps)
            ranked = step.unfinished if is_last or self._options.keep_finished else {}
            taken = set[tuple[int, int]]()
            for node in (*step.kept, *step.ended):
                if node in ids:
                    continue
                place, token, parent = rows[node], tokens[node], ids[parents[node]]
                leading.add(parent)
                taken.add((place, token))
                has_ended = node in scores
                why = ""
                if has_ended and last_seen[node] < len(self._steps):
                    why = f"it ended, and better outputs took its place at step {last_seen[node] + 1}"
                elif is_last and not has_ended:
                    why = self._why_over()
                ids[node] = len(nodes)
                nodes.append(
                    SearchNode(
                        id=len(nodes),
                        parent=parent,
                        step=number,
                        token=token,
                        log_probability=log_probabilities[node],
                        total=step.ends[place] if has_ended else step.kept[node],
                        score=scores[node] if has_ended else ranked.get(node),
                        state="ended" if has_ended else "kept",
                        why=why,
                        group=self._group(place),
                        is_end=token == self._eos,
                    )
                )
            nodes += self._pruned(step, number, len(nodes), ids, taken)
        late = {ids[node]: score for node, score in self._steps[-1].unfinished.items()} if self._steps else {}
        for each in nodes[1:]:
            if each.state == "kept" and each.id not in leading and not each.why:
                nodes[each.id] = replace(each, why="none of its continuations was kept", score=late.get(each.id))
        return tuple(nodes)

    def _pruned(
        self, step: _StepRecord, number: int, first: int, ids: dict[int, int], taken: set[tuple[int, int]]
    ) -> list[SearchNode]:
        """The runners-up of a step."""
        counts = dict.fromkeys(range(len(step.before)), 0)
        nodes: list[SearchNode] = []
        for loser in step.losers:
            if (loser.place, loser.token) in taken or counts[loser.place] == self._runners_up:
                continue
            counts[loser.place] += 1
            nodes.append(
                SearchNode(
                    id=first + len(nodes),
                    parent=ids[step.before[loser.place]],
                    step=number,
                    token=loser.token,
                    log_probability=loser.log_probability,
                    total=loser.total,
                    score=loser.score,
                    state="pruned",
                    why=loser.why,
                    group=self._group(loser.place),
                    is_end=loser.token == self._eos,
                )
            )
        return nodes

    def _group(self, place: int) -> int:
        return place // self._width if self._num_groups > 1 else 0

    def _why_over(self) -> str:
        """Why an unfinished hypothesis of the last beam was not continued."""
        if len(self._steps) >= self._limit:
            return "the output has reached the greatest length"
        stop = self._options.stop
        if stop == "optimal":
            return "the search was over: no continuation can have a better score than the outputs that have ended"
        return f"the search was over by stop {stop}"


class _Watched(AbstractSearch[Any]):
    """A search whose steps a recorder sees."""

    def __init__(self, search: AbstractSearch[Any], recorder: TreeRecorder) -> None:
        self.live_beam, self.num_returned = search.live_beam, search.num_returned
        self._search, self._recorder = search, recorder

    def step(self, state: Any) -> tuple[Any, Tensor, Tensor]:
        before = self.live_beam.nodes[0].tolist()
        result = self._search.step(state)
        self._recorder.add(self._search, state, before, result[0])
        return result

    def results(self, state: Any) -> tuple[Tensor, Tensor, Tensor]:
        return self._search.results(state)

    def possible(self, state: Any) -> tuple[Tensor, Tensor]:
        return self._search.possible(state)
