"""Beam search."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from torch import Tensor

from regard import tree
from regard.config.search import Search
from regard.decoding.frontier import Frontier, length_limits, widened
from regard.decoding.greedy import greedy_search
from regard.decoding.history import ROOT
from regard.decoding.penalty import AbstractPenalty, Candidates, penalty_of
from regard.decoding.processor import Processor, SearchSource, process, processors_of, uses_weights
from regard.decoding.result import Hypothesis, StopReason
from regard.errors import ConfigError
from regard.models.contract import Decoder, Tree
from regard.ops import largest


def beam_search(
    decoder: Decoder,
    memory: Tree,
    options: Search | None = None,
    *,
    bos: int,
    eos: int,
    max_length: int | Tensor,
    alignment: bool = False,
    penalty: AbstractPenalty | None = None,
    processors: Sequence[Processor] = (),
    items: Tensor | None = None,
    source: SearchSource | None = None,
) -> list[list[Hypothesis]]:
    """Follows the `beam` most probable unfinished hypotheses of every sentence at once.

    At each step every hypothesis of the beam may end: its end of sentence is admitted whatever its rank, and the
    `num_best` finished hypotheses with the highest penalised scores are kept. Besides, the `beam` most probable
    continuations form the next beam. A sentence stops when none of them can beat the last of the `num_best` finished
    ones, even if all further tokens were certain (`AbstractPenalty.bound`). Searching on, for example until a whole
    beam has finished, would therefore return the same. At the maximum length the list is filled up with unfinished
    hypotheses. If every hypothesis of the beam has become impossible and none has finished, the beam of the step before
    is returned.

    A beam of 1 is greedy search by definition: the end of sentence is taken only when it is the most probable token. By
    the rule above it would be admitted at every step.

    Args and Raises: as in `search`.
    """
    options = Search() if options is None else options
    if options.method != "beam":
        raise ConfigError(
            f"Beam search is method beam; got method={options.method!r}. Call search.", ("decoding", "method")
        )
    if options.beam == 1:
        return greedy_search(
            decoder,
            memory,
            options,
            bos=bos,
            eos=eos,
            max_length=max_length,
            alignment=alignment,
            penalty=penalty,
            processors=processors,
            items=items,
            source=source,
        )
    if tree.rows(memory) == 0:
        return []
    penalty, processors = penalty or penalty_of(options), processors_of(options, processors)
    with torch.inference_mode():
        remaining = length_limits(max_length, memory)
        frontier = Frontier(
            decoder,
            memory,
            bos=bos,
            eos=eos,
            width=options.beam,
            begins_alike=True,
            alignment=alignment,
            keep_tokens=bool(processors),
            keep_weights=any(map(uses_weights, (penalty, *processors))),
            items=items,
            source=source,
        )
        scores, nodes = _search(frontier, options, remaining, penalty, processors)
        best = _best(options, remaining)
    kept = [[p for p, score in enumerate(row) if score > -inf][: options.num_best] for row in scores.tolist()]
    sentence = torch.tensor([b for b, row in enumerate(kept) for _ in row], device=nodes.device)
    column = torch.tensor([p for row in kept for p in row], device=nodes.device)
    stops: list[StopReason] = ["eos" if p < best else "length" for p in column.tolist()]
    hypotheses = iter(frontier.history.read(nodes[sentence, column], scores[sentence, column].tolist(), stops))
    return [[next(hypotheses) for _ in row] for row in kept]


def _search(
    frontier: Frontier,
    options: Search,
    remaining: Tensor,
    penalty: AbstractPenalty,
    processors: Sequence[Processor],
) -> tuple[Tensor, Tensor]:
    """Scores and last nodes of every sentence, (B, num_best + beam): first of finished hypotheses, then of the beam."""
    eos, beam, best = frontier.eos, options.beam, _best(options, remaining)
    count, history = len(frontier), frontier.history
    totals = torch.full((count, frontier.width), -inf, dtype=frontier.precision, device=remaining.device)
    totals[:, 0] = 0
    finished = totals.new_full((count, best), -inf)
    finished_nodes = frontier.nodes.new_full((count, best), ROOT)
    final = totals.new_full((count, best + beam), -inf)
    final_nodes = frontier.nodes.new_full((count, best + beam), ROOT)
    while len(frontier):
        log_probabilities = frontier.advance()
        length = frontier.step
        seen = frontier.seen(log_probabilities) if processors else None
        processed = process(log_probabilities, seen, processors)
        dead = totals == -inf
        may_end = length > options.min_length

        if may_end:
            rows = torch.arange(len(log_probabilities), device=log_probabilities.device).view_as(totals)
            ends = history.grow(frontier.nodes, torch.full_like(rows, eos), log_probabilities[:, eos].clone(), rows)
            ended = (totals + processed[:, eos].view_as(totals)).masked_fill(dead, -inf)
            frontier.require_numbers(ended)
            scores = penalty.score(_candidates(ended, length, frontier))
            finished, order = torch.cat([finished, scores], 1).sort(dim=1, descending=True, stable=True)
            finished_nodes = torch.cat([finished_nodes, ends], 1).gather(1, order)[:, :best]
            finished = finished[:, :best]

        values, tokens = largest(processed, beam, without=eos)
        candidates = (totals.view(-1, 1) + values).masked_fill(dead.view(-1, 1), -inf).view(len(frontier), -1)
        new_totals, indices = largest(widened(candidates, beam, -inf), beam)
        frontier.require_numbers(new_totals[:, :1])  # NaN comes first
        indices = indices.clamp_(max=candidates.shape[1] - 1)
        tokens = tokens.view(len(frontier), -1).gather(1, indices)
        first = torch.arange(0, len(log_probabilities), frontier.width, device=log_probabilities.device)[:, None]
        parents = indices.floor_divide_(values.shape[1]).add_(first)
        new_nodes = history.grow(frontier.nodes.flatten()[parents], tokens, log_probabilities[parents, tokens], parents)
        del log_probabilities, processed, seen  # so that those of the next step take their place

        extinct = new_totals[:, 0] == -inf
        leaving = extinct | (remaining <= length)
        if may_end:
            hope = penalty.bound(new_totals[:, 0], length, remaining)
            leaving = leaving | ((finished[:, -1] > -inf) & (hope <= finished[:, -1]))
        if bool(leaving.any()):
            stranded = (extinct & (finished[:, 0] == -inf))[:, None]
            unfinished = penalty.score(_candidates(new_totals, length, frontier, parents))
            if bool(stranded.any()):
                before = penalty.score(_candidates(totals, length - 1, frontier))
                unfinished = torch.where(stranded, widened(before, beam, -inf), unfinished)
            last = torch.where(stranded, widened(frontier.nodes, beam, ROOT), new_nodes)
            left = frontier.sentences[leaving]
            final[left] = torch.cat([finished, unfinished], 1)[leaving]
            final_nodes[left] = torch.cat([finished_nodes, last], 1)[leaving]
            staying = (~leaving).nonzero()[:, 0]
            frontier.move(parents[staying], tokens[staying], new_nodes[staying], staying)
            totals, finished, finished_nodes, remaining = (
                x[staying] for x in (new_totals, finished, finished_nodes, remaining)
            )
        else:
            frontier.move(parents, tokens, new_nodes)
            totals = new_totals
    return final, final_nodes


def _best(options: Search, limits: Tensor) -> int:
    """How many finished hypotheses are kept: at most as many as can end, a beam at every step."""
    return min(options.num_best, options.beam * int(limits.max()))


def _candidates(totals: Tensor, length: int, frontier: Frontier, rows: Tensor | None = None) -> Candidates:
    """Hypotheses (B, K) of `length` tokens at this step of the frontier, with their weights if it keeps them.

    Args:
        rows: (B, K), the flat rows of the frontier that unfinished hypotheses extend. Without, they have ended at this
            step, or at the one before if they are shorter.
    """
    weights, ended = frontier.weights, rows is None and length == frontier.step
    if weights is not None:
        weights = weights if length == frontier.step else frontier.weights_before
        assert weights is not None
        weights = weights.view(*totals.shape, -1) if rows is None else weights[rows]
    return Candidates(totals, length, ended, weights, frontier.mask if weights is not None else None)
